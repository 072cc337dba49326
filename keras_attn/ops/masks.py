"""Every mask of the library is made, checked, combined and applied here.

A mask is boolean, True = attend. A query that is left with no key gets weights of exactly 0.
"""

import keras
from keras import ops


def require_boolean(mask, name: str = "mask"):
    """Return `mask` as a tensor, or raise `ValueError` if it is not boolean."""
    mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) != "bool":
        raise ValueError(
            "A mask must be boolean, True where a query may attend: a float mask is refused, for "
            "added scores and factors of 0 and 1 cannot be told apart. "
            f"Received: {name}.dtype={mask.dtype}"
        )
    return mask


def length_mask(lengths, size):
    """Mask of the first `lengths[b]` of `size` positions: (B,) -> (B, size)."""
    return ops.arange(size)[None, :] < ops.cast(lengths, "int32")[:, None]


def causal_mask(query_length, key_length):
    """Mask (T, S) in which query t sees keys up to t + S - T.

    It is aligned to the bottom right: the last query sees every key, so queries that continue a
    cache of S - T keys see all of it.
    """
    return _distance(query_length, key_length) >= 0


def window_mask(query_length, key_length, window: int):
    """Mask (T, S) in which query t sees keys at a distance below `window`, on either side."""
    return ops.abs(_distance(query_length, key_length)) < window


def _distance(query_length, key_length):
    """How far key s lies before query t, both counted from the end: (T, S) integers."""
    query_position = ops.arange(query_length)[:, None] + (key_length - query_length)
    return query_position - ops.arange(key_length)[None, :]


def combine(*masks):
    """Logical and of the masks that are not None, with broadcasting; None if all are."""
    given = [require_boolean(mask) for mask in masks if mask is not None]
    if not given:
        return None
    combined = given[0]
    for mask in given[1:]:
        combined = ops.logical_and(combined, mask)
    return combined


def masked_softmax(scores, mask=None):
    """Softmax over the last axis of the scores whose mask is True.

    `w_s = m_s exp(e_s) / sum_r m_r exp(e_r)`, and 0 throughout where every `m_r` is False; the
    gradient is finite everywhere. Computed in float32 at least, whatever the dtype of the scores.

    Args:
        scores: (..., S) any float dtype.
        mask: boolean, broadcastable to the scores, or None.

    Returns:
        Weights of the shape of the scores, float32 (float64 for float64 scores).
    """
    if keras.backend.standardize_dtype(scores.dtype) != "float64":
        scores = ops.cast(scores, "float32")
    if mask is None:
        return ops.softmax(scores, axis=-1)
    mask = require_boolean(mask)
    # Half of the lowest float, so that subtracting the maximum cannot overflow.
    scores = ops.where(mask, scores, ops.cast(-1.7e38, scores.dtype))
    scores = scores - ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
    weights = ops.where(mask, ops.exp(scores), ops.zeros_like(scores))
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights / ops.where(total > 0, total, ops.ones_like(total))
