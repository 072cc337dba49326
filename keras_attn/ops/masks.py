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


def expand(mask, scores_shape, name: str = "mask"):
    """Return `mask` with the rank of the scores, or raise `ValueError` if it does not fit.

    Args:
        mask: boolean, or None. (B, S) hides keys from all queries, (B|1, T, S) from some, and for
            scores with heads (B|1, N|1, T, S) in some heads. Any axis may be 1.
        scores_shape: (B, T, S) or (B, N, T, S).
        name: what the caller calls the mask, for the error.
    """
    if mask is None:
        return None
    mask = require_boolean(mask, name)
    rank, given = len(scores_shape), tuple(mask.shape)
    if len(given) not in {2, 3, rank}:
        _refuse_shape(name, given, scores_shape)
    # Only the axis of queries may be missing beside that of heads: (B, S) is never (T, S).
    missing = rank - len(given)
    fitted = (*given[:1], *(1,) * missing, *given[1:])
    if any(
        size not in {1, None} and not _same(size, full)
        for size, full in zip(fitted, scores_shape, strict=True)
    ):
        _refuse_shape(name, given, scores_shape)
    return mask[(slice(None), *(None,) * missing)]


def visible(scores_shape, mask=None, causal: bool = False, window: int | None = None):
    """Which keys each query may attend to: `mask`, the causal rule and the window together.

    Args:
        scores_shape: (B, T, S) or (B, N, T, S).
        mask: see `expand`.
        causal: see `causal_mask`.
        window: see `window_mask`; a positive integer or None.

    Returns:
        A boolean mask of the rank of the scores, or None if nothing is hidden.
    """
    require_window(window)
    lengths = scores_shape[-2:]
    leading = (None,) * (len(scores_shape) - 2)
    return combine(
        expand(mask, scores_shape),
        causal_mask(*lengths)[leading] if causal else None,
        window_mask(*lengths, window)[leading] if window is not None else None,
    )


def of_call(scores_shape, query_mask=None, value_mask=None, key_mask=None, attention_mask=None):
    """The masks that an attention layer is called with, as one mask for `visible`.

    Args:
        scores_shape: (B, T, S) or (B, N, T, S).
        query_mask: (B|1, T): the queries that exist; the others see nothing.
        value_mask: (B|1, S): the values that exist.
        key_mask: (B|1, S): the keys that exist.
        attention_mask: (T, S), (B|1, T, S) or with heads (B|1, N|1, T, S).

    Returns:
        A boolean mask of the rank of the scores, or None.
    """
    between = (None,) * (len(scores_shape) - 3)
    batch, (query_length, key_length) = scores_shape[0], scores_shape[-2:]
    query_mask = _padding(query_mask, (batch, query_length), "query_mask")
    value_mask = _padding(value_mask, (batch, key_length), "value_mask")
    key_mask = _padding(key_mask, (batch, key_length), "key_mask")
    if attention_mask is not None and len(attention_mask.shape) == 2:
        attention_mask = attention_mask[None]
    return combine(
        None if query_mask is None else query_mask[(slice(None), *between, slice(None), None)],
        expand(value_mask, scores_shape, "value_mask"),
        expand(key_mask, scores_shape, "key_mask"),
        expand(attention_mask, scores_shape, "attention_mask"),
    )


def _padding(mask, shape, name):
    """Check a mask of positions, (B|1, length)."""
    if mask is None:
        return None
    mask = require_boolean(mask, name)
    given = tuple(mask.shape)
    if len(given) == 2 and given[0] in {1, None, shape[0]} and given[1] in {None, shape[1]}:
        return mask
    if len(given) == 2 and not all(isinstance(size, int) for size in shape):
        return mask
    raise ValueError(
        f"`{name}` says which positions exist, so that it has the shape (batch, length), here "
        f"{tuple(shape)}. Received: {name}.shape={given}"
    )


def broadcast_batch(first, second):
    """The batch size of two tensors of which either may have a batch of 1."""
    sizes = ops.shape(first)[0], ops.shape(second)[0]
    return sizes[1] if isinstance(sizes[0], int) and sizes[0] == 1 else sizes[0]


def require_window(window):
    """Raise `ValueError` unless `window` is None or a positive integer."""
    if window is None or (isinstance(window, int) and not isinstance(window, bool) and window > 0):
        return
    raise ValueError(
        "`window` must be a positive integer, the number of positions a query sees on its side "
        f"with its own, or None for all. Received: window={window!r}"
    )


def _same(size, full) -> bool:
    """Whether two sizes agree, as far as they are known while a graph is traced."""
    return not isinstance(full, int) or size == full


def _refuse_shape(name, given, scores_shape):
    known = tuple(size if isinstance(size, int) else None for size in scores_shape)
    forms = "(B, S), (B, T, S)" + (" or (B, N, T, S)" if len(known) == 4 else "")
    raise ValueError(
        f"A mask must have the shape {forms}, where an axis may be 1; for a mask (T, S) that all "
        f"examples share write mask[None]. The scores have the shape {known}. "
        f"Received: {name}.shape={given}"
    )


def seen_keys(mask):
    """Keys that some query (in some head) sees: (B|1, ..., S) -> (B|1, S)."""
    return ops.any(mask, axis=tuple(range(1, len(mask.shape) - 1)))


def clear_hidden(inputs, seen):
    """Put 0 where `seen` is False: inputs (B, S, ...), seen (B|1, S) or None.

    A weight of 0 does not silence a NaN (0 x NaN is NaN, in the gradient too), so what nobody may
    see is cleared before it is multiplied with anything.
    """
    if seen is None:
        return inputs
    seen = seen[(..., *(None,) * (len(inputs.shape) - 2))]
    return ops.where(seen, inputs, ops.zeros_like(inputs))


def require_step_mask(mask):
    """Return a mask of the steps of sequences as a tensor, or raise `ValueError`."""
    mask = require_boolean(mask)
    if len(mask.shape) != 2:
        raise ValueError(
            "The mask of a scan has one entry for each sequence and step, (B, T). "
            f"Received: mask.shape={tuple(mask.shape)}"
        )
    return mask


def of_steps(mask):
    """A mask of steps (B, T) beside time-major states: (T, B, 1)."""
    return ops.transpose(require_step_mask(mask))[..., None]


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
