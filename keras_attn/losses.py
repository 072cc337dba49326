"""Losses as a sum and a count, so that a mean is taken once, over the whole global batch."""

import keras
from keras import ops

from keras_attn.ops.masks import require_boolean


def token_loss(labels, logits, mask, label_smoothing: float = 0.0, sample_weight=None):
    """Cross entropy of every real token, summed, and the number of real tokens.

    `sum = - sum_bt m_bt w_b sum_v q_btv log softmax(logits_bt)_v` and `count = sum_bt m_bt w_b`,
    with `q_btv = (1 - s) [v = label_bt] + s / V` for a label smoothing of s.

    Their quotient is the mean over the real tokens however a batch is padded; add sums and counts
    over the parts of a batch first and divide once. Computed in float32 at least.

    Args:
        labels: (B, T) integers; what stands at masked positions is ignored.
        logits: (B, T, V), any float dtype.
        mask: (B, T) boolean, True at real tokens; or None, all are real.
        label_smoothing: mass in [0, 1) spread evenly over all V classes.
        sample_weight: (B,) or (B, T) weights, or None.

    Returns:
        `(sum, count)`, two scalars.

    Raises:
        ValueError: if `label_smoothing` is outside [0, 1) or the mask is not boolean.

    Example:
        >>> total, count = token_loss([[1, 0]], [[[0.0, 2.0], [9.0, 9.0]]], [[True, False]])
        >>> float(total / count)  # log(1 + exp(-2))
        0.126...

    Reference:
        Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7 (label smoothing).
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            "Label smoothing is a probability mass in [0, 1). "
            f"Received: label_smoothing={label_smoothing}"
        )
    logits = _at_least_float32(ops.convert_to_tensor(logits))
    labels = ops.cast(labels, "int32")
    weights = _token_weights(mask, sample_weight, labels, logits.dtype)  # (B, T)
    real = weights != 0
    # Labels and logits behind the mask may be anything, NaN included: they are replaced, for a
    # product with 0 would keep a NaN in the loss and in its gradient.
    labels = ops.where(real, labels, ops.zeros_like(labels))
    logits = ops.where(real[..., None], logits, ops.zeros_like(logits))
    loss = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)  # (B, T)
    if label_smoothing:
        at_label = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        loss = loss + label_smoothing * (at_label - ops.mean(logits, axis=-1))
    return ops.sum(loss * weights), ops.sum(weights)


def _at_least_float32(logits):
    if keras.backend.standardize_dtype(logits.dtype) == "float64":
        return logits
    return ops.cast(logits, "float32")


def _token_weights(mask, sample_weight, labels, dtype):
    """The weight of every token (B, T), 0 where it is masked."""
    weights = ops.ones_like(labels, dtype=dtype)
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, dtype)
        if len(sample_weight.shape) == 1:
            sample_weight = sample_weight[:, None]
        weights = weights * sample_weight
    if mask is None:
        return weights
    return ops.where(require_boolean(mask), weights, ops.zeros_like(weights))
