"""What a finished hypothesis' log-probability is made into its score with."""

import tensorflow as tf

_SMALLEST = 1.1754944e-38  # the least normal float32: the logarithm stays finite


def length_penalty(log_probability, length, alpha):
    """Make log-probabilities of different lengths comparable (Wu et al. 2016, equation 14).

        score = log p(y) / ((5 + |y|) / 6)^alpha

    Args:
        log_probability: of the whole hypothesis, any shape.
        length: tokens of the hypothesis, the end token counted; broadcastable.
        alpha: 0 leaves the log-probability as it is, more favours long hypotheses, less than 0
            short ones.

    Returns:
        The score, float32, of the broadcast shape.

    Example:
        >>> from keras_attn.decoding import length_penalty
        >>> float(length_penalty(-3.0, 3, alpha=1.0))
        -2.25

    Reference: Wu et al., "Google's Neural Machine Translation System", 2016, arXiv:1609.08144.
    """
    length = tf.cast(length, tf.float32)
    return tf.cast(log_probability, tf.float32) / ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(attention_sums, beta, mask=None):
    """How much of the source was left out (Wu et al. 2016, equation 14); added to the score.

        cp = beta * sum_s log(min(sum_t a_ts, 1))

    It is 0 when every source position got an attention of 1 over all steps, and below 0 otherwise.

    A masked source position has attention of exactly 0 at every step, so without `mask` a sum of
    exactly 0 counts as padding and contributes nothing: an example costs the same in a padded
    batch as alone. With hard attention, which leaves real positions at 0, pass the mask: then a
    position without attention counts as the smallest float32, a logarithm of -87.3.

    Args:
        attention_sums: (B, S), the attention each source position got, summed over the steps.
        beta: the weight of the penalty, 0 or more.
        mask: boolean (B, S), True for the source positions that exist.

    Returns:
        (B,) float32, 0 or less.

    Example:
        >>> from keras_attn.decoding import coverage_penalty
        >>> penalty = coverage_penalty([[0.5, 1.2, 0.9]], beta=0.2)
        >>> round(float(penalty[0]), 4)  # 0.2 (log 0.5 + log 0.9)
        -0.1597

    Reference: Wu et al., "Google's Neural Machine Translation System", 2016, arXiv:1609.08144.
    """
    covered = tf.minimum(tf.cast(attention_sums, tf.float32), 1.0)
    if mask is None:
        logarithm = tf.math.log(tf.where(tf.equal(covered, 0.0), 1.0, covered))
    else:
        logarithm = tf.where(mask, tf.math.log(tf.maximum(covered, _SMALLEST)), 0.0)
    return beta * tf.reduce_sum(logarithm, axis=-1)
