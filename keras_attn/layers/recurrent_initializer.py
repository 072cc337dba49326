"""Initialisation of recurrent weights in dtypes that have no linear algebra."""

import keras
from keras import ops

from keras_attn.ops.precision import wide_dtype


def at_least_float32(initializer):
    """The initializer, computed in float32 for half precision weights and rounded.

    The orthogonal matrices with which recurrent kernels start come from a QR decomposition, for
    which there is no kernel in bfloat16.
    """

    def initialize(shape, dtype=None):
        dtype = keras.backend.standardize_dtype(dtype)
        return ops.cast(initializer(shape, dtype=wide_dtype(dtype)), dtype)

    return initialize
