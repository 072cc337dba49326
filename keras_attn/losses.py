"""Losses as a sum and a count, so that a mean is taken once, over the whole global batch."""

import math

import keras
import tensorflow as tf
from keras import ops

from keras_attn.ops.labels import (
    known_labels,
    label_tensor,
    require_smoothing,
    require_z_loss,
    token_weights,
)
from keras_attn.ops.masks import token_mask
from keras_attn.ops.precision import at_least_float32
from keras_attn.saved import registered
from keras_attn.special_tokens import PADDING


def token_loss(
    labels,
    logits,
    mask,
    label_smoothing: float = 0.0,
    sample_weight=None,
    reduction: str = "sum_and_count",
    z_loss: float = 0.0,
):
    """Cross entropy of every real token, summed, and the number of real tokens.

    `l_bt = - sum_v q_btv log softmax(logits_bt)_v + z (log sum_v exp logits_btv)^2`, with
    `q_btv = (1 - s) [v = label_bt] + s / V` for a label smoothing of s and a z-loss of z, and with
    the mask m and the weights w

    - `"sum_and_count"`: `sum = sum_bt m_bt w_bt l_bt` and `count = sum_bt m_bt w_bt`. Their
      quotient is the mean over the real tokens however a batch is padded; add sums and counts over
      the parts of a batch first and divide once.
    - `"token"`: `m_bt w_bt l_bt` (B, T).
    - `"example"`: `sum_t m_bt w_bt l_bt / sum_t m_bt w_bt` (B,), the mean over the real tokens of
      each example, 0 for one that has none. These are the numbers of `tfa.seq2seq.sequence_loss`
      with `average_across_timesteps=True` and `average_across_batch=False`.

    Computed in float32 at least. A token with a weight of 0 is not real either.

    Args:
        labels: (B, T) integers; what stands at masked positions is ignored.
        logits: (B, T, V), any float dtype.
        mask: (B, T) boolean, True at real tokens; or None, all are real.
        label_smoothing: s, mass in [0, 1) spread evenly over all V classes.
        sample_weight: (B,) or (B, T) weights, or None.
        reduction: see above.
        z_loss: z; a little of it, such as 1e-4, keeps the logits from drifting away from 0.

    Returns:
        `(sum, count)`, two scalars; or the losses (B, T) or (B,).

    Raises:
        ValueError: if an argument has another shape or dtype than above (nothing is broadcast), or
            `label_smoothing`, `z_loss` or `reduction` another value; if the label of a real token
            is outside of [0, V). In a graph the last is an `InvalidArgumentError`; XLA can raise
            nothing, and there the loss of such a token is NaN and has no gradient.

    Example:
        >>> total, count = token_loss([[1, 0]], [[[0.0, 2.0], [9.0, 9.0]]], [[True, False]])
        >>> print(f"{float(total / count):.4f}")  # log(1 + exp(-2))
        0.1269

    Reference:
        Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7 (label smoothing).
        Chowdhery et al. 2022, "PaLM", section 5 (z-loss).
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)
    reduce = _reduction(reduction)
    labels = label_tensor(labels)
    logits = at_least_float32(ops.convert_to_tensor(logits))
    weights = token_weights(labels, logits, mask, sample_weight)  # (B, T)
    real = weights != 0
    labels, outside = known_labels(labels, tf.shape(logits)[-1], real)
    # Logits behind the mask may be anything, NaN included: they are replaced, for a product with 0
    # would keep a NaN in the loss and in its gradient.
    logits = ops.where(real[..., None], logits, ops.zeros_like(logits))
    loss = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)  # (B, T)
    if label_smoothing:
        at_label = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        loss = loss + label_smoothing * (at_label - ops.mean(logits, axis=-1))
    if z_loss:
        loss = loss + z_loss * tf.square(tf.reduce_logsumexp(logits, axis=-1))
    loss = tf.where(outside, tf.constant(math.nan, loss.dtype), loss)
    return reduce(loss, weights)


def _reduction(name: str):
    """How the losses and weights (B, T) of the tokens are put together."""
    if name not in _REDUCTIONS:
        raise ValueError(
            f"A reduction is one of {', '.join(_REDUCTIONS)}. Received: reduction={name!r}"
        )
    return _REDUCTIONS[name]


def _mean_of_examples(loss, weights):
    return tf.math.divide_no_nan(ops.sum(loss * weights, axis=1), ops.sum(weights, axis=1))


_REDUCTIONS = {
    "sum_and_count": lambda loss, weights: (ops.sum(loss * weights), ops.sum(weights)),
    "token": lambda loss, weights: loss * weights,
    "example": _mean_of_examples,
}


def doubly_stochastic_penalty(attention, lengths):
    """How far the attention of captions is from looking at every place once in all.

    `1/B sum_b sum_l (1 - sum_{t < lengths_b} a_btl)^2`

    The weights of a step add up to 1 over the places; this wants those of a place to do so over the
    steps, so that no part of the image is left out (equation 14 of the paper).

    Args:
        attention: (B, T, L), the weights of T steps over L places.
        lengths: (B,) integers, the steps of each caption; later ones do not count.

    Returns:
        A scalar, the mean over the batch, 0 for an empty one.

    Raises:
        ValueError: if the shapes do not go together.

    Example:
        >>> from keras_attn.losses import doubly_stochastic_penalty
        >>> attention = [[[1.0, 0.0], [0.5, 0.5]]]
        >>> [float(doubly_stochastic_penalty(attention, [steps])) for steps in (1, 2)]
        [1.0, 0.5]

    Reference:
        Xu et al. 2015, "Show, Attend and Tell", section 4.2.1, https://arxiv.org/abs/1502.03044
    """
    attention = at_least_float32(ops.convert_to_tensor(attention))
    lengths = ops.convert_to_tensor(lengths)
    if len(attention.shape) != 3 or len(lengths.shape) != 1:
        raise ValueError(
            "The penalty takes attention of captions, (batch, steps, places), and the steps of "
            f"each, (batch,). Received: attention.shape={tuple(attention.shape)}, "
            f"lengths.shape={tuple(lengths.shape)}"
        )
    steps = ops.arange(ops.shape(attention)[1], dtype=lengths.dtype)
    real = (steps < lengths[:, None])[..., None]  # (B, T, 1)
    looked = ops.sum(ops.where(real, attention, ops.zeros_like(attention)), axis=1)  # (B, L)
    total = ops.sum(ops.square(1 - looked))
    return ops.divide_no_nan(total, ops.cast(ops.shape(attention)[0], total.dtype))


@registered
class TokenLoss(keras.losses.Loss):
    """`token_loss` for `model.compile`: the mean over the real tokens of a batch.

    `loss = sum / count` of `keras_attn.losses.token_loss`, 0 if no token is real: one step of
    `model.fit` with it is one of `keras_attn.training.fit`, with the same loss and the same
    weights. Real are the labels before the padding (id 0) at the end of each row, less those that
    the Keras mask of the logits hides. `model.fit` of the models of `keras_attn.models` makes that
    mask of the padding of the input `target` and of the labels, and shows it to every metric and
    to Keras' own losses too.

    Keras shows the mean of its batches' losses, weighted by their rows; the mean over all tokens of
    an epoch is the metric `keras.metrics.SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        label_smoothing: mass in [0, 1) spread evenly over all V classes.
        name: of the loss.
        z_loss: factor of the squared logarithm of the softmax's denominator, see `token_loss`.

    Call arguments:
        y_true: labels (B, T), integers.
        y_pred: logits (B, T, V).
        sample_weight: (B,) or (B, T) weights, or None; the count is of weights then.

    Returns:
        The loss, a scalar.

    Raises:
        ValueError: if it is called on several replicas of a `tf.distribute` strategy, of which
            Keras would add up the means of unequal numbers of tokens; or as `token_loss`.

    Example:

    >>> import numpy as np
    >>> from keras_attn.losses import TokenLoss
    >>> loss = TokenLoss()(np.array([[3, 2, 0]]), np.zeros((1, 3, 4), "float32"))
    >>> round(float(loss), 4)  # log 4
    1.3863

    With a model, and inputs and padded labels in arrays:

        model.compile(keras.optimizers.Adam(1e-3), loss=TokenLoss(label_smoothing=0.1))
        model.fit(inputs, labels, batch_size=32, epochs=10)
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "token_loss", z_loss: float = 0.0):
        super().__init__(name=name, reduction="mean_with_sample_weight")
        require_smoothing(label_smoothing)
        require_z_loss(z_loss)
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras' own call would cast to its precision first, and divide by the number of tokens.
        require_one_replica()
        mask = token_mask(y_true, PADDING)
        hidden_by_model = getattr(y_pred, "_keras_mask", None)
        if hidden_by_model is not None:
            mask = ops.logical_and(mask, hidden_by_model)
        total, count = token_loss(
            y_true, y_pred, mask, self.label_smoothing, sample_weight, z_loss=self.z_loss
        )
        return ops.divide_no_nan(total, count)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "name": self.name,
            "z_loss": self.z_loss,
        }


def require_one_replica() -> None:
    """Raise `ValueError` in the scope of a strategy of several replicas, where a mean is no sum."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            "model.fit takes the mean of every replica's mean, which is not that of the batch if "
            "the replicas have unequal numbers of tokens: train on several devices with "
            f"keras_attn.training.fit(..., strategy=strategy). Received: {replicas} replicas"
        )
