"""The Gaussian error linear unit, exact in every precision."""

import math

import tensorflow as tf


def gelu(x):
    """`x P(X <= x)` for a standard normal X: `x erfc(-x / sqrt(2)) / 2`.

    As `tf.nn.gelu`, whose `1 / sqrt(2)` is a float32 number in float64 too.

    Args:
        x: any float tensor.

    Reference:
        Hendrycks and Gimpel 2016, "Gaussian error linear units", https://arxiv.org/abs/1606.08415
    """
    return 0.5 * x * tf.math.erfc(-x * tf.constant(math.sqrt(0.5), x.dtype))
