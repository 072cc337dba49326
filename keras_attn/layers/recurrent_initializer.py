"""Initialisation of recurrent weights in dtypes that have no linear algebra."""

from keras import ops


def at_least_float32(initializer):
    """The initializer, computed in float32 for half precision weights and rounded.

    The orthogonal matrices with which recurrent kernels start come from a QR decomposition, for
    which there is no kernel in bfloat16.
    """

    def initialize(shape, dtype=None):
        wide = "float32" if dtype in ("bfloat16", "float16") else dtype
        return ops.cast(initializer(shape, dtype=wide), dtype)

    return initialize
