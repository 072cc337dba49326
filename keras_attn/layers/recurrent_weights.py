"""Weights of another form of a recurrent cell are refused by the name of that form."""

from collections.abc import Iterator

import numpy as np

from keras_attn.ops.recurrent import LSTM_BLOCKS, PEEPHOLES, LSTMForm


def require_own_form(cell, shapes: list, forms: Iterator[tuple[dict, list]]) -> None:
    """Raise `ValueError` if weights of these shapes are those of another form of the cell.

    What fits no form is left to Keras, which names the weight that does not fit.

    Args:
        cell: a built cell.
        shapes: of the weights given.
        forms: of the kind of cell, their settings and the shapes of their weights.
    """
    shapes = [tuple(shape) for shape in shapes]
    if shapes == [tuple(weight.shape) for weight in cell.weights]:
        return
    fitting = [settings for settings, expected in forms if expected == shapes]
    if not fitting:
        return
    kind = type(cell).__name__.removesuffix("Cell")
    others = [{n: s[n] for n in s if s[n] != getattr(cell, n)} for s in fitting]
    own = {name: getattr(cell, name) for other in others for name in other}
    raise ValueError(
        f"These are the weights of another form of {kind}, one with "
        f"{' or '.join(map(_spelled, others))}: make the layer with these settings, or by "
        f"{kind}.from_config(trained_layer.get_config()). "
        f"Received: weights of the shapes {shapes} for {_spelled(own)}"
    )


def gru_forms(features: int, units: int) -> Iterator[tuple[dict, list]]:
    """The settings of every form of a GRU that shapes can tell, and the shapes of its weights."""
    kernels = [(features, 3 * units), (units, 3 * units)]
    # Without biases the two forms have the same shapes.
    yield {"reset_after": False, "use_bias": True}, [*kernels, (3 * units,)]
    yield {"reset_after": True, "use_bias": True}, [*kernels, (2, 3 * units)]
    yield {"use_bias": False}, kernels


def lstm_forms(features: int, units: int) -> Iterator[tuple[dict, list]]:
    """The settings of every form of an LSTM, and the shapes of its weights."""
    for variant in LSTM_BLOCKS:
        for peepholes in PEEPHOLES:
            for use_bias in (True, False):
                settings = {"variant": variant, "peepholes": peepholes, "use_bias": use_bias}
                yield settings, _lstm_shapes(features, units, **settings)


def _lstm_shapes(features, units, variant, peepholes, use_bias) -> list:
    form = LSTMForm(peepholes, "new", variant)
    blocks, gates = len(form.blocks) * units, len(form.gates)
    shapes = [(features, blocks), (units, blocks)]
    if use_bias:
        shapes.append((blocks,))
    if peepholes is not None:
        shapes.append((gates, units) if peepholes == "diagonal" else (units, gates * units))
    if variant == "FGR":
        shapes.append((3 * units, 3 * units))
    return shapes


def shapes_of(weights) -> list[tuple]:
    """The shapes of arrays."""
    return [np.shape(weight) for weight in weights]


def stored_shapes(store) -> list[tuple]:
    """The shapes of the weights of a cell in a file, in their order."""
    return [np.shape(store[key]) for key in sorted(store.keys(), key=int)]


def _spelled(settings: dict) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
