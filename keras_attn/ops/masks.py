"""Every mask of the library is made, checked, combined and applied here.

A mask is boolean, True = attend. A query that is left with no key gets weights of exactly 0.
"""

import math

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attn.checks import is_whole
from keras_attn.ops.precision import at_least_float32
from keras_attn.ops.shapes import sizes

_LOWEST = -1.7e38


def require_boolean(mask, name: str = "mask"):
    """Return `mask`, a tensor, an array or nested lists, as a tensor, or raise `ValueError`."""
    mask = _as_tensor(mask, name)
    if keras.backend.standardize_dtype(mask.dtype) != "bool":
        raise ValueError(
            "A mask must be boolean, True where a query may attend: a float mask is refused, for "
            "added scores and factors of 0 and 1 cannot be told apart. "
            f"Received: {name}.dtype={mask.dtype}"
        )
    return mask


def _as_tensor(mask, name: str):
    try:
        return ops.convert_to_tensor(mask)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "A mask must be a tensor, or lists of True and False of equal lengths. "
            f"Received: {name}={mask!r}"
        ) from error


def carried(tensor, mask=None):
    """The mask given, or else the Keras mask that the tensor carries.

    Keras fills the argument `mask` only where a layer is called with a single tensor: beside an
    initial state or a memory it would be lost without a word.
    """
    return getattr(tensor, "_keras_mask", None) if mask is None else mask


def require_window(window, name: str = "window"):
    """The window, or `ValueError` unless it is None or a positive integer."""
    if window is None:
        return None
    if is_whole(window) and window > 0:
        return int(window)
    raise ValueError(
        f"`{name}` must be a positive integer, the number of positions that a query sees on one "
        f"side, its own among them, or None for all. Received: {name}={window!r}"
    )


def length_mask(lengths, size):
    """Mask of the first `lengths[b]` of `size` positions: (B,) -> (B, size)."""
    return ops.arange(size)[None, :] < ops.cast(lengths, "int32")[:, None]


def token_mask(ids, padding: int):
    """Mask of the tokens before the padding: (B, T) integers -> (B, T).

    Padding is what stands behind the last id that is another. The same id before that is a token:
    some vocabularies start a sentence with it.
    """
    ids = ops.convert_to_tensor(ids)
    size = ops.shape(ids)[1]
    positions = ops.where(ids != padding, ops.arange(1, size + 1), 0)  # (B, T)
    return length_mask(ops.max(positions, axis=1, initial=0), size)


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


def position_mask(query_positions, key_positions, causal: bool = False, window: int | None = None):
    """Mask (B, T, S) from positions (B, T) and (B, S); a negative key position is an empty slot."""
    distance = query_positions[:, :, None] - key_positions[:, None, :]
    return combine(
        (key_positions >= 0)[:, None, :],
        distance >= 0 if causal else None,
        ops.abs(distance) < window if window is not None else None,
    )


def combine(*masks):
    """Logical and of the masks that are not None, with broadcasting; None if all are."""
    given = [require_boolean(mask) for mask in masks if mask is not None]
    if not given:
        return None
    combined = given[0]
    for mask in given[1:]:
        combined = ops.logical_and(combined, mask)
    return combined


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
    missing = rank - len(given)
    # (B, S) is never read as (T, S): which of the two it was would hang on the batch size.
    fitted = (*given[:1], *(1,) * missing, *given[1:])
    if len(given) not in {2, 3, rank} or not fits(fitted, scores_shape):
        known = tuple(size if isinstance(size, int) else None for size in scores_shape)
        forms = "(B, S), (B, T, S)" + (" or (B, N, T, S)" if rank == 4 else "")
        raise ValueError(
            f"A mask must have the shape {forms}, where an axis may be 1; a mask (T, S) that all "
            f"examples share is written mask[None]. The scores have the shape {known}. "
            f"Received: {name}.shape={given}"
        )
    return insert_axes(mask, 1, missing)


def fits(shape, full_shape) -> bool:
    """Whether `shape` broadcasts to `full_shape`, as far as both are known in a traced graph."""
    return len(shape) == len(full_shape) and all(
        size in {1, None} or not isinstance(full, int) or size == full
        for size, full in zip(shape, full_shape, strict=True)
    )


def padding(mask, shape, name: str):
    """Return a mask of positions, or raise `ValueError` if it does not fit `shape` (B, length)."""
    if mask is None:
        return None
    mask = require_boolean(mask, name)
    if not fits(tuple(mask.shape), shape):
        known = tuple(size if isinstance(size, int) else None for size in shape)
        raise ValueError(
            f"`{name}` says which positions exist and must have their shape, here {known}. "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )
    return mask


def of_call(scores_shape, value_mask=None, key_mask=None, attention_mask=None):
    """The masks over keys that an attention layer is called with, as one mask for `visible`.

    Args:
        scores_shape: (B, T, S) or (B, N, T, S).
        value_mask: (B|1, S): the values that exist.
        key_mask: (B|1, S): the keys that exist.
        attention_mask: (T, S), (B|1, T, S) or with heads (B|1, N|1, T, S). The layers have
            `value_mask` for (B, S), so that two axes mean (T, S) here, as in Keras.

    Returns:
        A boolean mask of the rank of the scores, or None.
    """
    keys = (scores_shape[0], scores_shape[-1])
    return combine(
        expand(padding(value_mask, keys, "value_mask"), scores_shape),
        expand(padding(key_mask, keys, "key_mask"), scores_shape),
        expand_attention_mask(attention_mask, scores_shape),
    )


def expand_attention_mask(mask, scores_shape):
    """As `expand`, of a mask whose two axes, if it has no more, are (T, S)."""
    if mask is None:
        return None
    mask = require_boolean(mask, "attention_mask")
    mask = insert_axes(mask, 0, 1 if len(mask.shape) == 2 else 0)
    return expand(mask, scores_shape, "attention_mask")


def insert_axes(mask, axis: int, count: int):
    """Put axes of size 1 before an axis; a symbolic tensor cannot be indexed with None."""
    return ops.expand_dims(mask, tuple(range(axis, axis + count))) if count else mask


def broadcast_batch(first, second):
    """The batch size of two tensors of which either may have a batch of 1."""
    return broadcast_size(ops.shape(first)[0], ops.shape(second)[0])


def broadcast_size(first, second):
    """The size of an axis of which either size may be 1, as far as it is known."""
    return second if isinstance(first, int) and first == 1 else first


def seen_keys(mask):
    """Keys that some query (in some head) sees: (B|1, ..., S) -> (B|1, S), None for None."""
    return None if mask is None else ops.any(mask, axis=tuple(range(1, len(mask.shape) - 1)))


def visible_keys(scores_shape, mask=None, causal: bool = False, window: int | None = None):
    """Keys that some query sees in some head: (B|1, S), or None without a mask.

    As `seen_keys` of `visible`, but a mask of keys alone is not blown up to (T, S).
    """
    require_window(window)
    if mask is None:
        return None
    query_length, key_length = scores_shape[-2:]
    mask = expand(mask, scores_shape)
    if mask.shape[-2] != 1 or len(mask.shape) != 4:
        return seen_keys(visible(scores_shape, mask, causal, window))
    seen = seen_keys(mask)
    if window is None:
        return ops.logical_and(seen, ops.convert_to_tensor(query_length > 0))
    # The first query sees furthest back; the last one sees all that follow it.
    first, _ = key_range(key_length - query_length, key_length, causal, window)
    return ops.logical_and(seen, (ops.arange(key_length) >= first) & (query_length > 0))


def seeing_queries(scores_shape, mask=None, causal: bool = False, window: int | None = None):
    """Queries that see a key in some head: (B|1, T), or None where that is all of them.

    The arguments are those of `visible`; without a mask, or with one of keys alone, nothing is
    blown up to (T, S).
    """
    query_length, key_length = scores_shape[-2:]
    every_query_has_a_key = (
        isinstance(query_length, int) and isinstance(key_length, int)
    ) and 0 < query_length <= key_length
    if mask is None and (every_query_has_a_key or not (causal or window)):
        return None
    position = ops.arange(query_length) + (key_length - query_length)
    first, end = key_range(position, key_length, causal, window)  # (T,)
    if mask is None:
        return (first < end)[None]
    mask = expand(mask, scores_shape)
    if mask.shape[-2] != 1:
        seen = ops.any(visible(scores_shape, mask, causal, window), axis=-1)
    else:
        seen = _some_in_range(mask[..., 0, :], first, end)
    return ops.any(seen, axis=1) if len(scores_shape) == 4 else seen


def key_range(position, key_length, causal: bool = False, window: int | None = None):
    """First key that a query at a position sees, and the one after the last.

    Positions count from the first key, and the last query stands at the last key.
    """
    position = ops.convert_to_tensor(position)
    first = ops.zeros_like(position) if window is None else position - (window - 1)
    last = position if causal else ops.full_like(position, key_length - 1)
    if window is not None and not causal:
        last = position + (window - 1)
    return ops.clip(first, 0, key_length), ops.clip(last + 1, 0, key_length)


def _some_in_range(mask, first, end):
    """Whether mask (..., S) has a True in [first, end): (..., T)."""
    count = ops.cumsum(ops.cast(mask, "int32"), axis=-1)
    count = ops.pad(count, [[0, 0]] * (len(mask.shape) - 1) + [[1, 0]])  # (..., S + 1)
    return ops.take(count, end, axis=-1) > ops.take(count, first, axis=-1)


def clear_hidden(inputs, seen):
    """Put 0 where `seen` is False: inputs (B, S, ...), seen (B|1, S) or None.

    A weight of 0 does not silence a NaN (0 x NaN is NaN, in the gradient too), so what nobody may
    see is cleared before it is multiplied with anything.
    """
    if seen is None:
        return inputs
    if inputs.shape[0] == 1 and seen.shape[0] != 1:
        seen = seen[(..., *(None,) * (len(inputs.shape) - 2))]
        return ops.where(seen, inputs, ops.zeros_like(inputs))
    sizes = ops.shape(inputs)
    rows = sizes[0] * sizes[1]
    inputs = ops.reshape(inputs, (rows, math.prod(sizes[2:])))
    seen = ops.reshape(ops.broadcast_to(seen, sizes[:2]), (rows,))
    # Chooses whole rows, three times as fast as `where`, which broadcasts.
    cleared = tf.raw_ops.Select(condition=seen, x=inputs, y=ops.zeros_like(inputs))
    return ops.reshape(cleared, sizes)


def clear_padding(inputs, mask, name: str = "mask"):
    """Put 0 at positions that do not exist: inputs (B, S, ...), mask (B|1, S) or None."""
    return clear_hidden(inputs, padding(mask, ops.shape(inputs)[:2], name))


def require_step_mask(mask, batch, length, name: str = "mask"):
    """Return a mask of the steps of sequences as a tensor (B, T), or raise `ValueError`.

    Args:
        mask: boolean (B|1, T).
        batch: B, a scalar tensor where a graph does not know it.
        length: T, likewise. A graph that does not know a size stops with the same sentence when it
            runs; compiled by XLA it cannot.
        name: what the caller calls the mask, for the error.
    """
    mask = require_boolean(mask, name)
    sentence = require_step_mask_shape(mask.shape, batch, length, name)
    if tuple(mask.shape) == (batch, length):
        return mask
    rows, steps = tf.unstack(tf.shape(mask))
    right = ((rows == batch) | (rows == 1)) & (steps == length)
    check = tf.debugging.Assert(right, [sentence, f"Received: {name}.shape=", tf.shape(mask)])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.broadcast_to(mask, [batch, length])


def require_step_mask_shape(shape, batch, length, name: str = "mask") -> str:
    """Raise `ValueError` unless a mask of this shape fits sequences (B, T, ...), as far as known.

    Returns:
        What the mask should have been, a sentence.
    """
    shape = tuple(shape)
    known = tuple(size if isinstance(size, int) else None for size in (batch, length))
    sentence = (
        "The mask of sequences has one entry for each sequence and step, (batch, time), here "
        f"{known}."
    )
    one_length = len(shape) == 2 and (None in (shape[1], known[1]) or shape[1] == known[1])
    if not one_length or not fits(shape, known):
        raise ValueError(f"{sentence} Received: {name}.shape={shape}")
    return sentence


def require_symbolic_step_mask(mask, shape, name: str = "mask"):
    """Raise `ValueError` for what `require_step_mask` would refuse of a mask without values.

    Args:
        mask: a symbolic tensor, an array, lists or None.
        shape: (B, T, ...) of the sequences.
        name: what the caller calls the mask.
    """
    if mask is None:
        return
    if not keras.backend.is_keras_tensor(mask):
        require_boolean(mask, name)
    elif mask.dtype != "bool":
        raise ValueError(f"A mask must be boolean. Received: {name}.dtype={mask.dtype}")
    require_step_mask_shape(np.shape(mask), *tuple(shape)[:2], name)


def of_steps(mask, inputs):
    """A mask (B|1, T) of the steps of inputs (B, T, ...) beside time-major states: (T, B, 1)."""
    return ops.transpose(require_step_mask(mask, *sizes(inputs)[:2]))[..., None]


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
    scores = at_least_float32(scores)
    if mask is None:
        return ops.softmax(scores, axis=-1)
    mask = require_boolean(mask)
    # Half of the lowest float, so that subtracting the maximum cannot overflow.
    scores = ops.where(mask, scores, ops.cast(_LOWEST, scores.dtype))
    # Without `initial` Keras asserts in the graph that there is a score.
    highest = ops.max(scores, axis=-1, keepdims=True, initial=_LOWEST)
    scores = scores - ops.stop_gradient(highest)
    weights = ops.where(mask, ops.exp(scores), ops.zeros_like(scores))
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights / ops.where(total > 0, total, ops.ones_like(total))
