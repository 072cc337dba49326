"""How a layer or model made of others says in its config which of them are quantised.

Keras quantises the innermost layers, `Dense`, `EinsumDense` and `Embedding`, and records it in the
dtype policy of each. What is rebuilt from its own config alone makes these layers anew, so that
their policies must stand in that config: as a `DTypePolicyMap`, by the paths of the layers.
"""

import re

import keras


def quantized_dtype(layer) -> dict:
    """The entry `dtype` of the config of a layer with quantised sublayers, else nothing."""
    policies = quantized_policies(layer, layer.dtype_policy)
    return {} if policies is None else {"dtype": keras.dtype_policies.serialize(policies)}


def quantized_policies(layer, policy):
    """The policies of all sublayers, where one of them is quantised.

    Args:
        layer: a built layer or model.
        policy: the dtype policy that its sublayers were given.

    Returns:
        A `DTypePolicyMap`, or None where no sublayer is quantised.

    Raises:
        ValueError: a quantiser that is not Keras' default, which no policy records.
    """
    default = plain_policy(policy)
    sublayers = [each for each in layer._flatten_layers(include_self=False) if each.path]
    quantized = [each for each in sublayers if each.quantization_mode is not None]
    if not quantized:
        return None
    for each in quantized:
        _require_default_quantizers(each)
    policies = {each.path: plain_policy(each.dtype_policy, each.path) for each in sublayers}
    return keras.dtype_policies.DTypePolicyMap(
        default.name,
        {_wherever(layer, path): own for path, own in policies.items() if own != default},
    )


def _wherever(layer, path: str) -> str:
    """A pattern for the path of a sublayer, whatever the layer is named and lies in."""
    if not path.startswith(f"{layer.path}/"):
        return path
    return f"(?:.*/)?{re.escape(path[len(layer.path) + 1 :])}"


def plain_policy(policy, path: str | None = None):
    """A dtype policy, of a map the one for a path, or for the layers that it does not name.

    Keras' quantised layers look for some of their settings in a plain policy alone.
    """
    if not isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return policy
    return policy.default_policy if path is None else policy[path]


def _require_default_quantizers(layer):
    """What is done to the inputs is not recorded in a policy; what was done to weights is past."""
    if layer.quantization_config is None:
        return
    default = keras.quantizers.AbsMaxQuantizer() if layer.quantization_mode == "int8" else None
    given = layer.quantization_config.activation_quantizer
    settings = [None if each is None else each.get_config() for each in (given, default)]
    if type(given) is not type(default) or settings[0] != settings[1]:
        raise ValueError(
            "A layer made of others keeps the modes of its quantised projections in its config and "
            "comes back with Keras' default quantisers of inputs: quantise by the mode alone, as "
            f"in model.quantize('int8'). Received: activation_quantizer={settings[0]} of the layer "
            f"'{layer.path}'"
        )
