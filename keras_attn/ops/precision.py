"""Numbers that decide are computed in float32 at least, whatever the policy."""

import keras
import tensorflow as tf
from keras import ops


def wide_dtype(dtype) -> str:
    """`float32` for every type of float but `float64`, which stays.

    Args:
        dtype: of Keras, TensorFlow or NumPy.
    """
    wide = keras.backend.standardize_dtype(tf.as_dtype(dtype).name) == "float64"
    return "float64" if wide else "float32"


def at_least_float32(x):
    """A tensor in `wide_dtype` of its own type."""
    return ops.cast(x, wide_dtype(x.dtype))
