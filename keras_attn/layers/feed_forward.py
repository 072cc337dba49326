"""The position-wise network of a Transformer block."""

import keras
from keras import initializers, ops

from keras_attn.checks import require_size
from keras_attn.layers.feed_forward_activations import activation_config, activation_of
from keras_attn.layers.quantized import plain_policy, quantized_dtype
from keras_attn.layers.shape_checks import require_features
from keras_attn.saved import registered


@registered
class FeedForward(keras.layers.Layer):
    """Two dense layers at every position: `W_2 f(W_1 x + b_1) + b_2`.

    With a gate there are two hidden layers: `W_2 (f(W_1 x + b_1) * (W_3 x + b_3)) + b_2`, where f
    is the sigmoid in `"glu"`, the identity in `"bilinear"`, and the rectifier, `gelu` and `silu` in
    `"reglu"`, `"geglu"` and `"swiglu"`.

    Args:
        intermediate_dim: Width of the hidden layer.
        activation: A gated one by its name, `"glu"`, `"bilinear"`, `"reglu"`, `"geglu"` or
            `"swiglu"`; the name of a Keras activation, as `"relu"`, `"gelu"` (exact) or `"silu"`;
            or any function of a tensor. A function that is registered with
            `keras.saving.register_keras_serializable` is saved by its name. Defaults to `"relu"`.
        use_bias: Whether the dense layers have biases. Defaults to `True`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.

    Call arguments:
        inputs: (..., D); integers and booleans are cast.

    Returns:
        As `inputs`, in the compute dtype.

    Raises:
        ValueError: a width that is not a positive integer, an unknown activation, inputs without
            an axis of examples, or of other features than the layer was built for.

    Example:

    >>> import keras
    >>> from keras_attn.layers import FeedForward
    >>> layer = FeedForward(16, "swiglu")
    >>> tuple(layer(keras.ops.ones((2, 3, 8))).shape)
    (2, 3, 8)

    References:
        Vaswani et al. 2017, section 3.3, https://arxiv.org/abs/1706.03762
        Shazeer 2020, "GLU variants improve Transformer", https://arxiv.org/abs/2002.05202
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation="relu",
        use_bias: bool = True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        intermediate_dim = require_size("intermediate_dim", intermediate_dim)
        function, gated = activation_of(activation)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = function if isinstance(activation, dict) else activation
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self._activate = function
        self._gated = gated

    def build(self, input_shape):
        require_features("inputs", input_shape)
        features = input_shape[-1]
        self._features = features
        self._hidden_dense = self._dense(self.intermediate_dim, "hidden")
        self._hidden_dense.build((None, features))
        self._gate_dense = None
        if self._gated:
            self._gate_dense = self._dense(self.intermediate_dim, "gate")
            self._gate_dense.build((None, features))
        if isinstance(self._activate, keras.layers.Layer) and not self._activate.built:
            self._activate.build((*input_shape[:-1], self.intermediate_dim))
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
            dtype=plain_policy(self.dtype_policy, f"{self.path}/{name}"),
            name=name,
        )

    def call(self, inputs):
        self.compute_output_shape(inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)
        hidden = self._activate(self._hidden_dense(inputs))
        if self._gate_dense is not None:
            hidden = hidden * self._gate_dense(inputs)
        return self._output_dense(hidden)

    def compute_output_shape(self, input_shape):
        require_features("inputs", input_shape, self._features if self.built else None)
        return tuple(input_shape)

    def get_config(self):
        return {
            **super().get_config(),
            **quantized_dtype(self),
            "intermediate_dim": self.intermediate_dim,
            "activation": activation_config(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
        }
