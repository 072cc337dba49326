"""Products of whole sequences with matrices, each one product and not a batch of small ones."""

import tensorflow as tf

from keras_attn.ops.precision import at_least_float32
from keras_attn.ops.shapes import sizes


def flat(x):
    """(..., features) as a matrix."""
    return tf.reshape(x, [-1, x.shape[-1]])


def times(x, kernel, transpose: bool = False):
    """(..., features) times a kernel, or times its transpose."""
    width = kernel.shape[0 if transpose else 1]
    product = tf.matmul(flat(x), kernel, transpose_b=transpose)
    return tf.reshape(product, [*sizes(x)[:-1], width])


def sum_of_outer_products(a, b):
    """The gradient of a kernel: `sum a^T b` over all but the last axis."""
    return tf.matmul(flat(a), flat(b), transpose_a=True)


def sum_of_rows(x):
    """The gradient of a bias, summed in float32 at least: (..., features) -> (features,)."""
    return tf.cast(tf.reduce_sum(at_least_float32(flat(x)), axis=0), x.dtype)
