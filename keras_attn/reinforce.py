"""REINFORCE: the gradient of an expected reward, from samples."""

from typing import NamedTuple

import tensorflow as tf

_LEAST_SCALE = 1e-6


class Reinforced(NamedTuple):
    """What `reinforce` gives, each a sum over the samples.

    Attributes:
        policy: whose gradient is that of minus the expected reward.
        baseline: the squared error of the baseline, whose gradient reaches the baseline alone.
        entropy: of the policy, or 0; more of it explores more.
        count: of samples.
    """

    policy: tf.Tensor
    baseline: tf.Tensor
    entropy: tf.Tensor
    count: tf.Tensor


def reinforce(
    log_probability,
    reward,
    baseline=None,
    *,
    entropy=None,
    mask=None,
    normalize: bool = False,
) -> Reinforced:
    """The surrogate of a reward that has no gradient of its own, with a learned baseline.

    `policy = -sum_n A_n log p(sample_n)`, with the advantage `A_n = R_n - b_n` a constant, so that
    its gradient is an estimate of `-d E[R]`: `d E[R] = E[(R - b) d log p]` for any b that does not
    depend on the sample. `baseline = sum_n (R_n - b_n)^2` teaches b the reward that is to be
    expected. The sample itself must be a constant in its log-probability, as it is in
    `ops.gaussian_log_probability` and `ops.categorical_log_probability`.

    Args:
        log_probability: (B,) or (B, T), of the samples.
        reward: (B,) or (B, T), what followed; (B,) counts for all T samples of a row.
        baseline: (B,) or (B, T), what was expected; 0 if not given.
        entropy: (B,) or (B, T), of the distributions that were sampled from.
        mask: boolean (B,) or (B, T), True at samples that count; all do if not given.
        normalize: whether advantages are divided by their root mean square over the batch (but by
            no less than 1e-6), so that the step does not depend on the scale of rewards. Rewards
            are then no longer weighed against other losses, and under a strategy each replica
            divides by its own.

    Returns:
        `Reinforced`: sums and the count, to be added to the sum and count of an objective.

    Raises:
        ValueError: if shapes do not go together.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.reinforce import reinforce
        >>> terms = reinforce(tf.math.log([0.5, 0.25]), reward=[1.0, 0.0], baseline=[0.5, 0.5])
        >>> round(float(terms.policy), 4), float(terms.baseline), float(terms.count)
        (-0.3466, 0.5, 2.0)

    Reference:
        Williams 1992, "Simple statistical gradient-following algorithms for connectionist
        reinforcement learning", https://doi.org/10.1007/BF00992696
    """
    log_probability = tf.convert_to_tensor(log_probability)
    reward = tf.stop_gradient(_beside(log_probability, "reward", reward))
    baseline = _beside(log_probability, "baseline", 0.0 if baseline is None else baseline)
    entropy = _beside(log_probability, "entropy", 0.0 if entropy is None else entropy)
    counts = _beside(log_probability, "mask", 1.0 if mask is None else mask) > 0
    advantage = tf.stop_gradient(reward - baseline)
    if normalize:
        advantage /= tf.maximum(tf.sqrt(_mean(advantage**2, counts)), _LEAST_SCALE)
    return Reinforced(
        policy=-_sum(advantage * log_probability, counts),
        baseline=_sum((reward - baseline) ** 2, counts),
        entropy=_sum(entropy, counts),
        count=tf.reduce_sum(tf.cast(counts, log_probability.dtype)),
    )


def _beside(log_probability, name: str, value):
    """A value for each sample: one of a row counts for all samples of it."""
    value = tf.cast(value, log_probability.dtype)
    if value.shape.rank == 1 and log_probability.shape.rank == 2:
        value = value[:, None]
    if not _broadcasts(value.shape, log_probability.shape):
        raise ValueError(
            f"The {name} has a number for each sample, or one for each row of samples. Received: "
            f"{name}.shape={tuple(value.shape)}, "
            f"log_probability.shape={tuple(log_probability.shape)}"
        )
    return tf.broadcast_to(value, tf.shape(log_probability))


def _broadcasts(shape, wanted) -> bool:
    try:
        return tf.broadcast_static_shape(shape, wanted).is_compatible_with(wanted)
    except ValueError:
        return False


def _sum(values, counts):
    """The sum over the samples that count; what does not count may be anything."""
    return tf.reduce_sum(tf.where(counts, values, 0.0))


def _mean(values, counts):
    number = tf.reduce_sum(tf.cast(counts, values.dtype))
    return tf.math.divide_no_nan(_sum(values, counts), number)
