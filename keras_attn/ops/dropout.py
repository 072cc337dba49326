"""Dropout from half as many random bits."""

import math

import tensorflow as tf

_CHOICES = 1 << 16


def dropout(x, rate: float, seed):
    """Put 0 in the place of a share of x, and divide the rest by the share that is kept.

    `y_i = x_i k_i / (1 - rate)`, every `k_i` is 0 with probability `rate`, else 1. Each is decided
    by 16 random bits of its own, so that a random number of 32 bits serves two; the rate is rounded
    to a multiple of 2^-16, in the divisor too: the expectation of y is x.

    Args:
        x: any float tensor.
        rate: in [0, 1]; at 1 all is dropped.
        seed: (2,) int32; the same seed drops the same.

    Reference:
        Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
    """
    dropped = round(rate * _CHOICES)
    if dropped == _CHOICES:
        return tf.zeros_like(x)
    size = math.prod(x.shape) if x.shape.is_fully_defined() else tf.size(x)
    words = tf.random.stateless_uniform(
        [(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint32
    )
    choices = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size]
    kept = tf.reshape(choices >= tf.constant(dropped, tf.uint16), tf.shape(x))
    return x * (tf.cast(kept, x.dtype) * (_CHOICES / (_CHOICES - dropped)))


def int32_seed(seed):
    """A seed in the range that XLA takes too, as Keras casts those of its generators."""
    seed = tf.convert_to_tensor(seed)
    if seed.dtype == tf.int32:
        return seed
    return tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
