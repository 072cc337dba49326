"""Maxout: the largest of several linear pieces."""

import keras
from keras import ops

from keras_attn.checks import require_size
from keras_attn.saved import registered


@registered
class Maxout(keras.layers.Layer):
    """Maximum over groups of neighbouring features.

    `y_j = max_{k < pieces} x_{j * pieces + k}`

    Args:
        pieces: how many neighbouring features compete.

    Call arguments:
        inputs: (..., d) with d a multiple of `pieces`.

    Returns:
        (..., d / pieces)

    Raises:
        ValueError: if `pieces` is no positive integer, or the last dimension not a multiple of it.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import Maxout
    >>> Maxout(2)(np.array([[1.0, 3.0, 5.0, 4.0]])).numpy().tolist()
    [[3.0, 5.0]]

    Reference:
        Goodfellow et al. 2013, "Maxout Networks"; in RNNsearch, the readout (A.2.2).
    """

    def __init__(self, pieces: int = 2, **kwargs):
        super().__init__(**kwargs)
        self.pieces = require_size("pieces", pieces)
        self.supports_masking = True

    def build(self, input_shape):
        self._require_groups(input_shape)

    def _require_groups(self, input_shape):
        if len(input_shape) < 2 or input_shape[-1] is None or input_shape[-1] % self.pieces:
            raise ValueError(
                f"The last dimension must be a multiple of the {self.pieces} pieces, after one of "
                "the batch at least. "
                f"Received: input_shape={tuple(input_shape)}"
            )

    def call(self, inputs):
        self._require_groups(inputs.shape)
        inputs = ops.cast(inputs, self.compute_dtype)
        grouped = ops.reshape(inputs, (*ops.shape(inputs)[:-1], -1, self.pieces))
        # Keras refuses the maximum of an empty batch unless it is told where to begin.
        return ops.max(grouped, axis=-1, initial=float("-inf"))

    def compute_output_shape(self, input_shape):
        self._require_groups(input_shape)
        return (*input_shape[:-1], input_shape[-1] // self.pieces)

    def get_config(self):
        return {**super().get_config(), "pieces": self.pieces}
