"""Layer normalisation with the gradient written by hand, in half the passes of autodiff's."""

import tensorflow as tf

from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.products import flat, sum_of_rows


def layer_normalization(x, gamma, beta, epsilon: float = 1e-6):
    """`y = gamma (x - mean(x)) / sqrt(var(x) + epsilon) + beta` over the last axis.

    Computed in float32 at least, and returned in the dtype of x.

    Args:
        x: (..., d) any float dtype.
        gamma, beta: (d,).
        epsilon: added to the variance.

    Reference:
        Ba et al. 2016, "Layer normalization", https://arxiv.org/abs/1607.06450
    """
    dtype = wide_dtype(x.dtype)
    given = tuple(tf.cast(each, dtype) for each in (x, gamma, beta))
    (y,) = with_gradient(_forward, _backward, (epsilon,))(given)
    return tf.cast(y, x.dtype)


def _forward(epsilon, given):
    x, gamma, beta = given
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    inverse = tf.math.rsqrt(variance + epsilon)  # (..., 1)
    normalized = centred * inverse
    return (normalized * gamma + beta,), (normalized, inverse)


def _backward(epsilon, given, outputs, saved, output_gradients):
    """`dx = (g - mean(g) - n mean(g n)) / std` with `g = gamma dy` and the normalised n."""
    _, gamma, _ = given
    (normalized, inverse), (dy,) = saved, output_gradients
    product = dy * normalized
    mean_row = (gamma / tf.cast(tf.size(gamma), gamma.dtype))[:, None]  # (d, 1)
    mean = tf.reshape(tf.matmul(flat(dy), mean_row), tf.shape(inverse))
    slope = tf.reshape(tf.matmul(flat(product), mean_row), tf.shape(inverse))
    dx = (dy * gamma - mean - normalized * slope) * inverse
    return dx, sum_of_rows(product), sum_of_rows(dy)
