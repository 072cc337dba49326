"""The position-wise network of a Transformer block."""

import keras
from keras import activations, initializers

ACTIVATIONS = ("relu", "gelu", "swiglu")


@keras.saving.register_keras_serializable(package="keras_attn")
class FeedForward(keras.layers.Layer):
    """Two dense layers at every position: `W_2 f(W_1 x + b_1) + b_2`.

    With `"swiglu"` the hidden layer is gated: `W_2 (silu(W_1 x + b_1) * (W_3 x + b_3)) + b_2`.

    Args:
        intermediate_dim: Width of the hidden layer.
        activation: `"relu"`, `"gelu"` (exact) or `"swiglu"`. Defaults to `"relu"`.
        use_bias: Whether the dense layers have biases. Defaults to `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.

    Call arguments:
        inputs: (..., D).

    Returns:
        As `inputs`.

    Raises:
        ValueError: a width that is not a positive integer, an unknown activation.

    Example:

    >>> FeedForward(16, "swiglu")(keras.ops.ones((2, 3, 8))).shape
    TensorShape([2, 3, 8])

    References:
        Vaswani et al. 2017, section 3.3, https://arxiv.org/abs/1706.03762
        Shazeer 2020, "GLU variants improve Transformer", https://arxiv.org/abs/2002.05202
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: str = "relu",
        use_bias: bool = True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        if not isinstance(intermediate_dim, int) or intermediate_dim < 1:
            raise ValueError(
                "`intermediate_dim` must be a positive integer. "
                f"Received: intermediate_dim={intermediate_dim!r}"
            )
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be one of {ACTIVATIONS}. Received: activation={activation!r}"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def build(self, input_shape):
        features = input_shape[-1]
        self._hidden_dense = self._dense(self.intermediate_dim, "hidden")
        self._hidden_dense.build((None, features))
        self._gate_dense = None
        if self.activation == "swiglu":
            self._gate_dense = self._dense(self.intermediate_dim, "gate")
            self._gate_dense.build((None, features))
        self._output_dense = self._dense(features, "output")
        self._output_dense.build((None, self.intermediate_dim))
        self.built = True

    def _dense(self, units, name):
        return keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            # Copies, for one initializer gives the same numbers each time it is asked.
            kernel_initializer=initializers.get(initializers.serialize(self.kernel_initializer)),
            bias_initializer=initializers.get(initializers.serialize(self.bias_initializer)),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs):
        hidden = self._hidden_dense(inputs)
        if self._gate_dense is None:
            hidden = activations.get(self.activation)(hidden)
        else:
            hidden = activations.silu(hidden) * self._gate_dense(inputs)
        return self._output_dense(hidden)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
