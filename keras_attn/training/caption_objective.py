"""What a model that writes captions of images minimises."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.losses import doubly_stochastic_penalty, token_loss
from keras_attn.reinforce import reinforce

_KEPT = 0.9
"""How much of the moving mean of the rewards a step keeps."""


def caption_objective(
    coverage_weight: float = 1.0, policy_weight: float = 1.0, entropy_weight: float = 0.01
) -> Callable:
    """The objective of `models.ShowAttendTell`: batches of (inputs, labels, mask).

    Soft attention (equation 14), with the penalty over the places of each caption b:

    `sum_bt -log p(y_bt) + coverage_weight sum_b sum_i (1 - sum_t alpha_bti)^2`

    Hard attention maximises a lower bound of the log-likelihood (equation 10),

    `L = sum_s p(s) log p(y | s) <= log p(y)`

    by one draw of the places s, with the surrogate whose gradient is that of equation 12:

    `sum_bt -log p(y_bt | s) - policy_weight A_bt log p(s_bt) - entropy_weight H[alpha_bt]`

    The advantage `A_bt = sum_{t' >= t} (log p(y_bt' | s) - m)` is a constant: a place has no
    influence on the words before it, and m, the moving mean of what a word had so far
    (`expected_reward` of the model's reading), is the baseline for each word that is left. A
    caption that read the mixture of all places drew none, and has no part in the middle term. The
    value is that of the first term alone, an estimate of -L: the others have a gradient only.

    Args:
        coverage_weight: lambda of soft attention; hard attention has no such term.
        policy_weight: of what the places learn from the draw; with 1 the gradient is that of L.
        entropy_weight: of the entropy, which keeps hard attention looking around.

    Returns:
        `objective(model, batch, training=True) -> (sum, count)`; the count is that of the words. In
        validation, where hard attention draws nothing, only the first term is there.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.models import ShowAttendTell
        >>> from keras_attn.training import caption_objective
        >>> model = ShowAttendTell(9, (8, 8, 1), embedding_dim=8, decoder_units=8,
        ...                        attention_units=8, filters=(4,), attention="hard")
        >>> ids = tf.ones([2, 4], tf.int32)
        >>> batch = {"images": tf.zeros([2, 8, 8, 1]), "target": ids}, ids, tf.ones([2, 4], tf.bool)
        >>> total, count = caption_objective()(model, batch)
        >>> float(count)
        8.0

    Reference:
        Xu et al. 2015, "Show, Attend and Tell", section 4, https://arxiv.org/abs/1502.03044
    """

    def objective(model, batch, training=True):
        inputs, labels, mask = batch
        told = model.tell(inputs, training=training)
        total, count = token_loss(labels, told["logits"], mask)
        if not training:
            return total, count
        if "places" not in told:
            return total + coverage_weight * _coverage(told["attention"], mask), count
        policy, entropy = _of_places(model, told, labels, mask)
        taught = policy_weight * policy - entropy_weight * entropy
        return total + taught - tf.stop_gradient(taught), count

    return objective


def _coverage(attention, mask):
    """The penalty of the batch, a sum over its captions."""
    lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    rows = tf.cast(tf.shape(attention)[0], tf.float32)
    return rows * doubly_stochastic_penalty(attention, lengths)


def _of_places(model, told, labels, mask):
    """What the draws of hard attention teach, and the entropy: sums over the batch."""
    reading = model.decoder.reading
    mask = tf.cast(mask, tf.bool)
    rewards = -tf.stop_gradient(token_loss(labels, told["logits"], mask, reduction="token"))
    expected = tf.where(mask, tf.convert_to_tensor(reading.expected_reward), 0.0)  # (B, T)
    terms = reinforce(
        told["log_probabilities"],
        tf.cumsum(rewards, axis=1, reverse=True),
        tf.cumsum(expected, axis=1, reverse=True),
        mask=mask & ~told["is_mixture"],
    )
    _expect(reading.expected_reward, rewards, mask)
    return terms.policy, tf.reduce_sum(tf.where(mask, told["entropies"], 0.0))


def _expect(expected_reward, rewards, mask):
    """Move the expectation towards the mean reward of the words of a batch, if it has some."""
    words = tf.reduce_sum(tf.cast(mask, tf.float32))
    mean = tf.math.divide_no_nan(tf.reduce_sum(rewards), words)
    moved = _KEPT * expected_reward + (1 - _KEPT) * mean
    expected_reward.assign(tf.where(words > 0, moved, expected_reward))
