"""A cache of keys and values of fixed size: (B, 2, L, Nkv, d), keys first.

Position p lies in slot p, or in slot p mod L where a window lets the cache wrap around. The cache
holds what has been written, whatever lies in the other slots: their positions are negative.
"""

import keras
import tensorflow as tf
from keras import ops

from keras_attn.ops import masks
from keras_attn.ops.compilation import compiled_by_xla


def slots(cache) -> int:
    """The number L of slots."""
    return cache.shape[2]


def first_positions(cache_position):
    """The position of the first new token, a scalar or (B,), as integers (1,) or (B,)."""
    position = ops.convert_to_tensor(cache_position)
    dtype = keras.backend.standardize_dtype(position.dtype)
    if "int" not in dtype or len(position.shape) > 1:
        raise ValueError(
            "`cache_position` must be an integer or one integer an example. "
            f"Received: cache_position with dtype={dtype} and shape={tuple(position.shape)}"
        )
    position = ops.cast(position, "int32")
    return position[None] if len(position.shape) == 0 else position


def wraps(cache, window, new_tokens) -> bool:
    """Whether the oldest slot may be overwritten once the cache is full.

    It may if no query of this call can see what its own tokens overwrite: the query of the first
    new token sees `window - 1` positions before it.
    """
    return (
        window is not None
        and isinstance(new_tokens, int)
        and slots(cache) >= window + new_tokens - 1
    )


def write(cache, key, value, position, wrap: bool):
    """Write new keys and values at their positions.

    In a graph the cache is updated in place where all examples share one position, and under XLA
    always; else a CPU copies it.

    Args:
        cache: (B, 2, L, Nkv, d).
        key: (B, T, Nkv, d).
        value: (B, T, Nkv, d).
        position: where the first of the T goes, (1,) or (B,).
        wrap: whether positions from L on start again at slot 0; else T positions must fit.

    Returns:
        The new cache.
    """
    updates = ops.cast(ops.stack([key, value], axis=1), cache.dtype)  # (B, 2, T, Nkv, d)
    contiguous = not wrap or updates.shape[2] == 1
    position = ops.mod(position, slots(cache)) if wrap else position
    # XLA's slices to assign to must lie at constant positions.
    if position.shape[0] == 1 and contiguous and not compiled_by_xla():
        return _write_slice(cache, updates, position[0])
    return _write_rows(cache, updates, position, wrap)


def _write_slice(cache, updates, position):
    """Of TensorFlow's functional updates, the one that reuses the buffer on a CPU too.

    It cuts a slice off at the end of the cache, where new tokens would vanish without a word. One
    token, what a decoding loop writes, goes to an index and not to a slice of one, for an index
    must exist; of several the last is looked at.
    """
    if updates.shape[2] == 1:
        begin = tf.stack([0, 0, position, 0, 0])
        value = tf.squeeze(updates, axis=2)  # (B, 2, Nkv, d)
        return _slice_update(cache, begin, begin + 1, value, begin_mask=0b11011, shrink=0b00100)
    end = position + ops.shape(updates)[2]
    fits = tf.debugging.assert_less_equal(
        end, slots(cache), "New tokens must lie in the positions of the cache."
    )
    with tf.control_dependencies([fits]):
        begin = tf.stack([0, 0, position, 0, 0])
    end = tf.stack([0, 0, end, 0, 0])
    return _slice_update(cache, begin, end, updates, begin_mask=0b11011, shrink=0)


def _slice_update(cache, begin, end, value, begin_mask: int, shrink: int):
    """`cache[begin:end] = value`; the masks are bits, the first axis the lowest."""
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=cache,
        begin=begin,
        end=end,
        strides=[1] * 5,
        value=value,
        begin_mask=begin_mask,
        end_mask=begin_mask,
        shrink_axis_mask=shrink,
    )


def _write_rows(cache, updates, position, wrap):
    batch, _, length, _, _ = ops.shape(updates)
    slot = position[:, None] + ops.arange(length)  # (B|1, T)
    slot = ops.mod(slot, slots(cache)) if wrap else slot
    shape = (batch, 2, length)
    example = ops.broadcast_to(ops.arange(batch)[:, None, None], shape)
    kind = ops.broadcast_to(ops.arange(2)[None, :, None], shape)
    indices = ops.stack([example, kind, ops.broadcast_to(slot[:, None], shape)], axis=-1)
    return ops.scatter_update(cache, indices, updates)


def slot_positions(size: int, last_position):
    """The position in each slot after the one at `last_position` was written.

    It is the latest position up to `last_position` that belongs in the slot, negative where there
    has been none.

    Args:
        size: the number L of slots.
        last_position: (1,) or (B,).

    Returns:
        (B|1, L) integers.
    """
    last = last_position[:, None]
    return last - ops.mod(last - ops.arange(size)[None], size)


def visible(
    cache,
    position,
    new_tokens,
    position_masks=(),
    attention_mask=None,
    causal: bool = False,
    window: int | None = None,
):
    """Which slots each new query may attend to, (B|1, N|1, T, L).

    Args:
        cache: (B, 2, L, Nkv, d), after the new tokens were written.
        position: position of the first new token, (1,) or (B,).
        new_tokens: their number T.
        position_masks: masks of keys, (B|1, T) of the new tokens or (B|1, M) of the positions from
            0 to M; positions that a mask does not reach are visible.
        attention_mask: (T, M), (B|1, T, M) or (B|1, N|1, T, M), over positions in the same way.
        causal: whether a query sees no later position.
        window: queries see positions at a distance below it.
    """
    query_positions = position[:, None] + ops.arange(new_tokens)  # (B|1, T)
    key_positions = slot_positions(slots(cache), position + (new_tokens - 1))  # (B|1, L)
    seen = masks.position_mask(query_positions, key_positions, causal, window)[:, None]
    keys = [
        _key_mask(mask, position, new_tokens, key_positions)[:, None, None]
        for mask in position_masks
        if mask is not None
    ]
    return masks.combine(seen, *keys, _attention_mask(attention_mask, key_positions))


def require_masks(scores_shape, value_mask, key_mask, attention_mask):
    """Raise `ValueError` for masks that `visible` cannot take.

    The shape of the scores is (B, N, T, None), for the masks may reach any number of positions.
    """
    masks.padding(value_mask, (scores_shape[0], None), "value_mask")
    masks.padding(key_mask, (scores_shape[0], None), "key_mask")
    masks.expand_attention_mask(attention_mask, scores_shape)


def _key_mask(mask, position, new_tokens, key_positions):
    """A mask of new tokens or of positions, as a mask of slots (B|1, L)."""
    mask = masks.require_boolean(mask)
    if mask.shape[1] is None or mask.shape[1] == new_tokens:
        key_positions = key_positions - position[:, None]
    return _look_up(mask, key_positions)


def _attention_mask(mask, key_positions):
    """Give the positions of a mask (..., T, M) to the slots: (B|1, N|1, T, L)."""
    if mask is None:
        return None
    mask = masks.require_boolean(mask, "attention_mask")
    mask = mask[(None,) * (2 if len(mask.shape) == 2 else 0)]
    mask = mask[:, None] if len(mask.shape) == 3 else mask
    return _look_up(mask, key_positions[:, None, None])


def _look_up(mask, positions):
    """mask (..., M) at positions (..., L), True where there are none."""
    size = ops.shape(mask)[-1]
    leading = ops.shape(mask)[:-1]
    wanted = ops.shape(positions)[:-1]
    leading = tuple(masks.broadcast_size(*sizes) for sizes in zip(leading, wanted, strict=True))
    inside = ops.logical_and(positions >= 0, positions < size)
    index = ops.clip(positions, 0, size - 1)
    found = ops.take_along_axis(
        ops.broadcast_to(mask, (*leading, size)),
        ops.broadcast_to(index, (*leading, ops.shape(positions)[-1])),
        axis=-1,
    )
    return ops.logical_or(found, ops.logical_not(inside))


def require_cache(cache, cache_position, new_tokens, heads, features, value_features):
    """Raise `ValueError` unless the cache, its position and the projections go together."""
    if cache is None:
        if cache_position is not None:
            raise ValueError(
                "`cache_position` is where new keys go in a `cache`, which must be given with it. "
                f"Received: cache=None, cache_position={cache_position}"
            )
        return
    shape = tuple(cache.shape)
    if cache_position is None:
        raise ValueError(
            "A `cache` needs the `cache_position` of the first new token. "
            f"Received: cache.shape={shape}, cache_position=None"
        )
    fits = len(shape) == 5 and shape[1] == 2 and shape[3:] == (heads, features)
    if not fits or shape[2] is None or features != value_features:
        raise ValueError(
            "A cache has the shape (batch, 2, length, key-value heads, features) with a known "
            f"length, here (batch, 2, length, {heads}, {features}); keys and values must have "
            f"equally many features, here {features} and {value_features}. "
            f"Received: cache.shape={shape}"
        )
    if isinstance(new_tokens, int) and new_tokens > shape[2]:
        raise ValueError(
            f"A cache of {shape[2]} positions cannot take {new_tokens} new tokens at once: give a "
            f"longer cache or fewer tokens. Received: cache.shape={shape}"
        )


def require_room(cache, position, new_tokens, wrap: bool):
    """Raise `ValueError` if the new tokens do not fit, where the position is known.

    In a graph it is not: there the write stops with an error, and under XLA what does not fit is
    lost.
    """
    if not tf.executing_eagerly() or ops.size(position) == 0:
        return
    first, last = int(ops.min(position)), int(ops.max(position)) + new_tokens - 1
    if first < 0 or (last >= slots(cache) and not wrap):
        raise ValueError(
            f"{new_tokens} new tokens from `cache_position` on must lie in the {slots(cache)} "
            f"positions of the cache. Received: cache_position={position.numpy().tolist()}"
        )
