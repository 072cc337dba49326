"""Sinusoidal position encoding as a Keras layer."""

import keras
from keras import ops

from keras_attn.ops.angles import token_positions
from keras_attn.ops.sinusoid import require_layout, sinusoid


@keras.saving.register_keras_serializable(package="keras_attn")
class SinusoidalEmbedding(keras.layers.Layer):
    """Sines and cosines of the positions, to be added to embedded tokens.

    `sin(p w_i)` and `cos(p w_i)` with `w_i = max_wavelength^(-2i / dim)`; see
    `keras_attn.ops.sinusoid`. Computed in float32 under every dtype policy and cast last. The layer
    returns the encoding alone, and has no weights.

    Args:
        layout: `"interleaved"` is sin, cos, sin, cos; `"concatenated"` has all sines first.
            Defaults to `"interleaved"`.
        max_wavelength: The longest wavelength is just below 2 pi times this. Defaults to
            `10000.0`.

    Call arguments:
        inputs: (B, T, dim), of which only the shape is used.
        positions: (T,) or (B, T), integers or float32. Defaults to `start_index` and onwards.
        start_index: Position of the first token, a scalar or (B,). Defaults to `0`.

    Returns:
        Encodings (B, T, dim) in the layer's compute dtype.

    Raises:
        ValueError: an unknown layout, a `max_wavelength` of at most 1, positions in half precision.

    Example:

    >>> tokens = keras.ops.ones((2, 3, 8))
    >>> (tokens + SinusoidalEmbedding()(tokens)).shape
    TensorShape([2, 3, 8])

    Reference:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
    """

    def __init__(self, layout: str = "interleaved", max_wavelength: float = 10000.0, **kwargs):
        require_layout(layout)
        if not max_wavelength > 1:
            raise ValueError(
                f"`max_wavelength` must be above 1. Received: max_wavelength={max_wavelength}"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.layout = layout
        self.max_wavelength = max_wavelength
        self.built = True

    def call(self, inputs, positions=None, start_index=0):
        if positions is None:
            positions = token_positions(ops.shape(inputs)[1], start_index)
        encoding = sinusoid(positions, inputs.shape[-1], self.layout, self.max_wavelength)
        return ops.broadcast_to(ops.cast(encoding, self.compute_dtype), ops.shape(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "layout": self.layout,
            "max_wavelength": self.max_wavelength,
        }
