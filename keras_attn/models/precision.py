"""In which precision the layers of a model compute, and how its config keeps it."""

import keras

from keras_attn.layers.quantized import plain_policy, quantized_policies


class Precision:
    """The dtype policy of a model that makes all its layers itself.

    Args:
        dtype: a dtype policy, its name or its config, or None for the global one.

    Raises:
        ValueError: a policy of quantised weights, which are made from trained ones.
    """

    def __init__(self, dtype):
        self.given = dtype
        self.policy = keras.dtype_policies.get(dtype)
        if self.policy.quantization_mode is not None:
            raise ValueError(
                "Quantised weights are made from trained ones: build the model in floats and "
                f"call its `quantize`. Received: dtype={dtype!r}"
            )

    def of(self, name: str, default=None):
        """The policy of a layer of the model by its name; `default` unless the layers have own."""
        is_map = isinstance(self.policy, keras.dtype_policies.DTypePolicyMap)
        return plain_policy(self.policy, name) if is_map or default is None else default

    def of_tied_embedding(self, name: str) -> dict:
        """The options of an embedding that makes logits too, by its name.

        Keras' `quantize("int4")` leaves the inputs of its products in floats, and its layer made
        anew with an int4 policy does not, unless it is told so.
        """
        policy = self.of(name)
        if policy.quantization_mode != "int4":
            return {"dtype": policy}
        config = keras.quantizers.Int4QuantizationConfig(block_size=policy.block_size)
        return {"dtype": policy, "quantization_config": config}

    @property
    def of_model(self):
        """The policy of the model itself, in whose scope its layers are called."""
        return plain_policy(self.policy)

    def config(self, model):
        """What the model's config says of it: None if none was given and nothing is quantised."""
        policies = quantized_policies(model, self.policy)
        if policies is None and self.given is None:
            return None
        return keras.dtype_policies.serialize(self.policy if policies is None else policies)


def require_float(layer):
    """Raise `ValueError` if the weights of the layer are quantised."""
    if layer.quantization_mode is not None:
        raise ValueError(
            "The weights of the output layer are quantised, and nothing can be trained or computed "
            "with them but the logits of a call: train the model before it is quantised. "
            f"Received: quantization_mode='{layer.quantization_mode}' of '{layer.path}'"
        )
