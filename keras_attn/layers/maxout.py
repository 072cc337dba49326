"""Maxout: the largest of several linear pieces."""

import keras
from keras import ops


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
        ValueError: if the last dimension is not a multiple of `pieces`.

    Example:
        >>> Maxout(2)(keras.ops.array([[1.0, 3.0, 5.0, 4.0]]))
        array([[3., 5.]])

    Reference:
        Goodfellow et al. 2013, "Maxout Networks"; in RNNsearch, the readout (A.2.2).
    """

    def __init__(self, pieces: int = 2, **kwargs):
        super().__init__(**kwargs)
        if pieces < 1:
            raise ValueError(f"Maxout needs at least one piece. Received: pieces={pieces}")
        self.pieces = pieces
        self.supports_masking = True

    def build(self, input_shape):
        if input_shape[-1] is None or input_shape[-1] % self.pieces:
            raise ValueError(
                f"The last dimension must be a multiple of the {self.pieces} pieces. "
                f"Received: input_shape={tuple(input_shape)}"
            )

    def call(self, inputs):
        grouped = ops.reshape(inputs, (*ops.shape(inputs)[:-1], -1, self.pieces))
        # Keras refuses the maximum of an empty batch unless it is told where to begin.
        return ops.max(grouped, axis=-1, initial=float("-inf"))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], input_shape[-1] // self.pieces)

    def get_config(self):
        return {**super().get_config(), "pieces": self.pieces}
