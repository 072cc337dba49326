"""Numbers beside tensors."""

import tensorflow as tf


def as_scalar(value, dtype):
    """A number, or a tensor or variable, in a dtype.

    A cast makes a float32 tensor of a Python number first, which in float64 is off by 1e-8.
    """
    dtype = tf.as_dtype(dtype)
    if isinstance(value, int | float):
        return tf.constant(value, dtype)
    return tf.cast(value, dtype)
