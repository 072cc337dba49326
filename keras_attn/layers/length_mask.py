"""Lengths to a mask, as a layer for functional models."""

import keras
from keras import ops

from keras_attn.ops.masks import length_mask
from keras_attn.saved import registered


@registered
class LengthMask(keras.layers.Layer):
    """Boolean mask of the first `lengths[b]` positions of a padded sequence.

    `mask[b, t] = t < lengths[b]`

    Call arguments:
        sequence: (B, T, ...), read for its number of positions only.
        lengths: (B,) integers.

    Returns:
        (B, T) boolean, True at real positions.

    Raises:
        ValueError: a sequence without positions; lengths that are not one integer an example.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import LengthMask
    >>> LengthMask()(np.zeros((2, 3)), np.array([1, 3])).numpy().tolist()
    [[True, False, False], [True, True, True]]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def call(self, sequence, lengths):
        lengths = ops.convert_to_tensor(lengths)
        _require_lengths(sequence.shape, lengths.shape, lengths.dtype)
        return length_mask(lengths, ops.shape(sequence)[1])

    def compute_output_shape(self, sequence_shape, lengths_shape):
        _require_lengths(sequence_shape, lengths_shape, "int32")
        return tuple(sequence_shape[:2])

    def compute_output_spec(self, sequence, lengths):
        _require_lengths(sequence.shape, lengths.shape, lengths.dtype)
        return keras.KerasTensor(sequence.shape[:2], dtype="bool")

    def get_config(self):
        # Keras' own refuses a dtype policy that is given as an object.
        return super().get_config()


def _require_lengths(sequence_shape, lengths_shape, dtype):
    sizes = (*sequence_shape[:1], *lengths_shape[:1])
    one_batch = len(sizes) == 2 and (None in sizes or sizes[0] == sizes[1])
    integers = "int" in keras.backend.standardize_dtype(dtype)
    if len(sequence_shape) < 2 or len(lengths_shape) != 1 or not one_batch or not integers:
        raise ValueError(
            "A length mask is made of a sequence (batch, time, ...) and one integer an example, "
            f"(batch,). Received: sequence.shape={tuple(sequence_shape)}, "
            f"lengths.shape={tuple(lengths_shape)}, lengths.dtype={dtype}"
        )
