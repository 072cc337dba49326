"""The activations of a feed-forward network, plain and gated."""

from collections.abc import Callable

from keras import activations

from keras_attn.ops.gelu import gelu

GATES = {
    "glu": activations.sigmoid,
    "bilinear": activations.linear,
    "reglu": activations.relu,
    "geglu": gelu,
    "swiglu": activations.silu,
}
"""The function of the gate by the name of the activation (Shazeer 2020)."""


def activation_of(activation) -> tuple[Callable, bool]:
    """The function that an activation stands for, and whether it gates another hidden layer.

    Raises:
        ValueError: what is neither a gated activation nor one that Keras takes.
    """
    # Keras' own `glu` halves the features; with a hidden layer for each half it is this one.
    name = "glu" if activation is activations.glu else activation
    if isinstance(name, str) and name in GATES:
        return GATES[name], True
    try:
        function = activations.get(activation)
    except ValueError:
        raise ValueError(
            "`activation` must be a function, the name of a Keras activation, or a gated one, one "
            f"of {tuple(GATES)}. Received: activation={activation!r}"
        ) from None
    return gelu if function is activations.gelu else function, False


def activation_config(activation):
    """What a config says of an activation."""
    if isinstance(activation, str):
        return activation
    return activations.serialize(activations.get(activation))
