"""Sinusoidal position encoding as a Keras layer."""

import keras
from keras import ops

from keras_attn.ops.angles import (
    along_axis_1,
    exact_dtype,
    require_positions,
    require_sequences_of_vectors,
    token_positions,
)
from keras_attn.ops.sinusoid import require_layout, sinusoid
from keras_attn.saved import registered


@registered
class SinusoidalEmbedding(keras.layers.Layer):
    """Sines and cosines of the positions, to be added to embedded tokens.

    `sin(p w_i)` and `cos(p w_i)` with `w_i = max_wavelength^(-2i / dim)`; see
    `keras_attn.ops.sinusoid`. Computed in float64 under the policy float64, in float32 under every
    other, and cast last. The layer returns the encoding alone, and has no weights.

    Args:
        layout: `"interleaved"` is sin, cos, sin, cos; `"concatenated"` has all sines first;
            `"opennmt_tf"` has all sines first, counts positions from 1 and has the frequencies
            `max_wavelength^(-i / (dim / 2 - 1))`, as models trained with OpenNMT-tf need.
            Defaults to `"interleaved"`.
        max_wavelength: The longest wavelength is just below 2 pi times this. Defaults to
            `10000.0`.

    Call arguments:
        inputs: (B, T, dim) or (B, T, ..., dim), of which only the shape is used. Positions run
            along axis 1; all entries of the axes between have the position of their row.
        positions: (T,) or (B, T), integers or float32, counted from 0 in every layout. Defaults to
            `start_index` and onwards.
        start_index: Position of the first token, a scalar or (B,). Defaults to `0`.

    Returns:
        Encodings of the shape of `inputs` in the layer's compute dtype.

    Raises:
        ValueError: an unknown layout, a `max_wavelength` of at most 1, a `dim` that the layout does
            not have, positions in half precision or of the wrong shape.

    Example:

    >>> import keras
    >>> from keras_attn.layers import SinusoidalEmbedding
    >>> tokens = keras.ops.ones((2, 3, 8))
    >>> tuple((tokens + SinusoidalEmbedding()(tokens)).shape)
    (2, 3, 8)

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
        self.compute_output_shape(inputs.shape)
        dtype = self.compute_dtype
        if positions is None:
            positions = token_positions(ops.shape(inputs)[1], start_index, exact_dtype(dtype))
        require_positions(inputs.shape, positions, "inputs")
        encoding = sinusoid(positions, inputs.shape[-1], self.layout, self.max_wavelength, dtype)
        return ops.broadcast_to(along_axis_1(encoding, len(inputs.shape)), ops.shape(inputs))

    def compute_output_shape(self, input_shape):
        require_sequences_of_vectors(input_shape)
        return input_shape

    def compute_output_spec(self, *args, **kwargs):
        # From `call`, so that a model is refused while it is built and not when it runs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "layout": self.layout,
            "max_wavelength": self.max_wavelength,
        }
