"""Log-probabilities of samples, whose gradient says how to make a sample more likely."""

import math

import tensorflow as tf

from keras_attn.ops.precision import at_least_float32, wide_dtype


def gaussian_log_probability(location, mean, stddev):
    """Log-density of a location under a Gaussian with the same deviation along both axes.

    `log p = -|l - m|^2 / (2 s^2) - d log(s sqrt(2 pi))`, whose gradient is `(l - m) / s^2` for the
    mean. The location is a constant: no gradient flows through it, also where it was made as `m +
    s * noise`, for else the gradient for the mean would be 0.

    Args:
        location: (B, d), d = 2 on an image.
        mean: (B, d).
        stddev: a number, or a scalar tensor.

    Returns:
        (B,), float32, or float64 if the mean is.

    Example:
        >>> from keras_attn.ops import gaussian_log_probability
        >>> round(float(gaussian_log_probability([[0.5, 0.0]], [[0.0, 0.0]], 0.5)[0]), 4)
        -0.9516

    Reference:
        Williams 1992, "Simple statistical gradient-following algorithms for connectionist
        reinforcement learning"
    """
    mean = tf.convert_to_tensor(mean)
    dtype = wide_dtype(mean.dtype)
    mean, stddev = tf.cast(mean, dtype), tf.cast(stddev, dtype)
    location = tf.stop_gradient(tf.cast(location, dtype))
    distance = tf.reduce_sum(((location - mean) / stddev) ** 2, axis=-1)
    number = tf.cast(tf.shape(mean)[-1], dtype)
    return -distance / 2 - number * (tf.math.log(stddev) + math.log(2 * math.pi) / 2)


def categorical_log_probability(choice, logits):
    """Log-probability of a choice among n: `logits[choice] - log sum exp logits`.

    Args:
        choice: (...), integers below n.
        logits: (..., n).

    Returns:
        (...), float32, or float64 if the logits are.

    Example:
        >>> from keras_attn.ops import categorical_log_probability
        >>> round(float(categorical_log_probability([1], [[0.0, 0.0]])[0]), 4)
        -0.6931
    """
    logits = at_least_float32(tf.convert_to_tensor(logits))
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(choice, tf.int32), logits)


def categorical_entropy(logits):
    """`-sum p log p` of the distribution that logits (..., n) give: (...).

    Args:
        logits: (..., n).

    Example:
        >>> from keras_attn.ops import categorical_entropy
        >>> round(float(categorical_entropy([0.0, 0.0])), 4)
        0.6931
    """
    logits = at_least_float32(tf.convert_to_tensor(logits))
    log_probabilities = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_probabilities) * log_probabilities, axis=-1)
