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
    logits = _at_least_float32(ops.convert_to_tensor(logits))
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


def _at_least_float32(logits):
    if keras.backend.standardize_dtype(logits.dtype) == "float64":
        return logits
    return ops.cast(logits, "float32")


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
