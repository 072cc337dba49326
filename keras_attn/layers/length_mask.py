"""Lengths to a mask, as a layer for functional models."""

import keras
from keras import ops

from keras_attn.ops.masks import length_mask


class LengthMask(keras.layers.Layer):
    """Boolean mask of the first `lengths[b]` positions of a padded sequence.

    `mask[b, t] = t < lengths[b]`

    Call arguments:
        sequence: (B, T, ...), read for its number of positions only.
        lengths: (B,) integers.

    Returns:
        (B, T) boolean, True at real positions.

    Example:
        >>> LengthMask()(keras.ops.zeros((2, 3)), keras.ops.array([1, 3]))
        array([[ True, False, False], [ True,  True,  True]])
    """

    def call(self, sequence, lengths):
        return length_mask(lengths, ops.shape(sequence)[1])

    def compute_output_spec(self, sequence, lengths):
        return keras.KerasTensor(sequence.shape[:2], dtype="bool")
