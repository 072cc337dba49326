"""Attention in memory linear in the length, and with a window in linear time."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.checks import require_size
from keras_attn.ops import attention_blocks, masks
from keras_attn.ops.attention_blocks import Blocks, Plan
from keras_attn.ops.attention_shapes import require_shapes, scores_shape
from keras_attn.ops.compilation import compiles_blocks
from keras_attn.ops.dropout import int32_seed
from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.scalars import as_scalar
from keras_attn.ops.shapes import sizes

LARGE_BLOCK, SMALL_BLOCK = 256, 128
LONG = 4096
"""Keys from which on large blocks pay. Of a block that a mask crosses a part is computed in vain,
the less the smaller it is; with a window those are most blocks."""


def blockwise_attention(
    query,
    key,
    value,
    mask=None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    *,
    block_mask: Callable | None = None,
    block_size: int | None = None,
    dropout: float = 0.0,
    seed=None,
    jit_compile: bool | str = "auto",
):
    """Attention that holds one block of the weights at a time, exact, and its gradient likewise.

    Equal to `dot_product_attention`, whose first arguments it shares, but for rounding. The weights
    of a block of queries for a block of keys are computed, used and forgotten, in the backward pass
    once more: memory grows with T + S and not with T x S. Blocks that `causal`, `window` or
    `block_mask` hide as a whole are not computed: causal attention takes half the time, attention
    with a window or a sparse pattern the time of what is visible. A mask (B, S) stays as it is; any
    other has T x S entries of one byte already.

    Sums and statistics are float32 at least. Derivatives of the gradient are autodiff's, at its
    speed and with its memory.

    Args:
        query: (B|1, T, N, d).
        key: (B, S, Nkv, d), N a multiple of Nkv.
        value: (B, S, Nkv, dv).
        mask: boolean, True where a query may attend: (B, S), (B|1, T, S) or (B|1, N|1, T, S).
        causal: whether query t sees no key after t + S - T.
        window: query t sees keys s with |t + S - T - s| < window; None for all.
        scale: factor of the scores. Defaults to `1 / sqrt(d)`.
        block_mask: which blocks of keys a block of queries sees, beside all other masks:
            `block_mask(query_block, key_block) -> visible` takes integer tensors (I, 1) and (1, J),
            the numbers of the blocks, and returns booleans (I, J). Query t lies in block
            t // block_size, key s in block s // block_size. Needs `block_size`.
        block_size: queries and keys of a block. Defaults to 256, with a window or less than 4096
            keys to 128.
        dropout: probability that a weight is dropped; the others are divided by 1 - dropout.
        seed: two integers that decide, with the numbers of its blocks, which weights are dropped.
        jit_compile: whether XLA compiles the loops: `"auto"`, where that pays (see
            `ops.compilation.compiles_blocks`), `True` or `False`.

    Returns:
        Outputs (B, T, N, dv) in the dtype of the values.

    Raises:
        ValueError: what `dot_product_attention` refuses; a `block_mask` without `block_size` or
            that does not return booleans; `dropout` without `seed`.

    Examples:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import blockwise_attention
    >>> query, key = tf.ones([2, 300, 4, 8]), tf.ones([2, 500, 2, 8])
    >>> blockwise_attention(query, key, key, causal=True).shape
    TensorShape([2, 300, 4, 8])

    Strided attention, the last 64 positions and every eighth block (Child et al. 2019):

    >>> def strided(query_block, key_block):
    ...     return (query_block - key_block <= 1) | (key_block % 8 == 7)
    >>> tokens = tf.ones([1, 1000, 2, 8])
    >>> output = blockwise_attention(
    ...     tokens, tokens, tokens, causal=True, block_mask=strided, block_size=64)

    Global tokens, here the first block, beside the neighbouring blocks (Zaheer et al. 2020):

    >>> def with_global_tokens(query_block, key_block):
    ...     near = tf.abs(query_block - key_block) <= 1
    ...     return near | (query_block == 0) | (key_block == 0)
    >>> output = blockwise_attention(
    ...     tokens, tokens, tokens, block_mask=with_global_tokens, block_size=64)

    References:
        Milakov and Gimelshein 2018, online softmax, https://arxiv.org/abs/1805.02867
        Rabe and Staats 2021, linear memory, https://arxiv.org/abs/2112.05682
        Dao et al. 2022, "FlashAttention", https://arxiv.org/abs/2205.14135
        Child et al. 2019, "Sparse Transformers", https://arxiv.org/abs/1904.10509
        Zaheer et al. 2020, "Big Bird", https://arxiv.org/abs/2007.14062
    """
    query, key, value = (tf.convert_to_tensor(x) for x in (query, key, value))
    require_shapes(query, key, value)
    block_size = _known_block_size(block_size, block_mask)
    window = masks.require_window(window)
    seed = None if dropout == 0 else seed_of(dropout, seed)

    shape = scores_shape(query, key)
    mask = masks.expand(mask, shape)
    seen = masks.visible_keys(shape, mask, causal, window)
    key, value = masks.clear_hidden(key, seen), masks.clear_hidden(value, seen)
    batch = _batch_size(query, key, value)
    query, key, value = (_with_batch(x, batch) for x in (query, key, value))
    (_, queries, heads, features), (_, keys, groups, _) = sizes(query), sizes(key)
    query *= as_scalar(features**-0.5 if scale is None else scale, query.dtype)

    rows, columns = (block_size or _block_size(length, keys, window) for length in (queries, keys))
    counts = _count(queries, rows), _count(keys, columns)
    first, count, order = _schedule(
        (queries, keys), (rows, columns), counts, causal, window, block_mask
    )
    blocks = Blocks(
        query=_to_blocks(query, groups, rows, counts[0]),
        key=_to_blocks(key, groups, columns, counts[1]),
        value=_to_blocks(value, groups, columns, counts[1]),
        lengths=tf.stack([queries, keys]),
        first=first,
        count=count,
        order=order,
        mask=_padded_mask(mask, shape, groups, (counts[0] * rows, counts[1] * columns)),
        seed=seed,
    )
    padded = not isinstance(keys, int) or keys != counts[1] * columns
    plan = Plan(
        query_size=rows,
        causal=causal,
        window=window,
        padded=padded,
        dropout=dropout,
        mask_by_query=mask is not None and mask.shape[2] != 1,
        mask_by_key=mask is not None and mask.shape[3] != 1,
    )
    run = with_gradient(
        attention_blocks.attend,
        attention_blocks.gradient,
        (plan,),
        compiles_blocks(jit_compile, blocks),
    )
    (outputs,) = run(blocks)
    return _from_blocks(outputs, heads, rows, queries)


def seed_of(dropout, seed):
    """The seed of a dropout as (2,) int32; raise `ValueError` where one of the two is wrong."""
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout!r}")
    if seed is None:
        raise ValueError(
            "Dropout needs a seed, two integers, from which it is drawn alike in the backward "
            "pass: for example the next() of a keras.random.SeedGenerator. Received: seed=None"
        )
    seed = tf.convert_to_tensor(seed)
    if seed.shape.rank != 1 or seed.shape[0] != 2:
        raise ValueError(f"A seed is two integers. Received: seed.shape={tuple(seed.shape)}")
    return int32_seed(seed)


def _known_block_size(block_size, block_mask) -> int | None:
    if block_size is None and block_mask is not None:
        raise ValueError(
            "A `block_mask` tells blocks by their numbers, so it needs to know their size: pass "
            "block_size too. Received: block_size=None"
        )
    return None if block_size is None else require_size("block_size", block_size)


def _block_size(length, keys, window) -> int:
    """How many of `length` positions form a block, by what was measured on a CPU."""
    short = window is not None or (isinstance(keys, int) and keys < LONG)
    size = SMALL_BLOCK if short else LARGE_BLOCK
    if not isinstance(length, int):
        return size
    return min(size, 2 ** max(length - 1, 0).bit_length())


def _batch_size(query, key, value):
    """The batch size of tensors of which some may have a batch of 1, static where one knows it."""
    known = {x.shape[0] for x in (query, key, value)} - {None, 1}
    return known.pop() if known else masks.broadcast_batch(query, key)


def _with_batch(x, batch):
    if x.shape[0] != 1 or (isinstance(batch, int) and batch == 1):
        return x
    return tf.broadcast_to(x, [batch, *sizes(x)[1:]])


def _count(length, size):
    """How many blocks hold the length; one at least, for the loops stack what they collect."""
    count = -(-length // size)
    return max(count, 1) if isinstance(count, int) else tf.maximum(count, 1)


def _schedule(lengths, sizes_of_blocks, counts, causal, window, block_mask):
    """The blocks of keys to compute for each block of queries: first, count and order."""
    (queries, keys), (rows, columns) = lengths, sizes_of_blocks
    start = tf.range(counts[0]) * rows
    end = tf.minimum(start + rows, queries)
    first, _ = masks.key_range(start + keys - queries, keys, causal, window)
    _, after = masks.key_range(end - 1 + keys - queries, keys, causal, window)
    first, after = first // columns, -(-after // columns)  # (I,)
    if block_mask is None:
        return first, tf.maximum(after - first, 0), None
    number = tf.range(counts[1])[None]  # (1, J)
    visible = masks.require_boolean(block_mask(tf.range(counts[0])[:, None], number), "block_mask")
    visible &= (first[:, None] <= number) & (number < after[:, None])  # (I, J)
    visible = tf.cast(visible, tf.int32)
    order = tf.argsort(visible, direction="DESCENDING", stable=True)
    return first, tf.reduce_sum(visible, axis=1), order


def _to_blocks(x, groups, size, count):
    """(B, T, N, d) -> (count, B, G, N / G * size, d), padded at the end."""
    batch, length, heads, features = sizes(x)
    x = _pad(x, 1, count * size - length)
    x = tf.reshape(x, [batch, count, size, groups, heads // groups, features])
    x = tf.transpose(x, [1, 0, 3, 4, 2, 5])
    return tf.reshape(x, [count, batch, groups, heads // groups * size, features])


def _from_blocks(x, heads, size, length):
    """(I, B, G, N / G * size, dv) -> (B, T, N, dv), without the padding."""
    count, batch, groups, _, features = sizes(x)
    x = tf.reshape(x, [count, batch, groups, heads // groups, size, features])
    x = tf.transpose(x, [1, 0, 4, 2, 3, 5])
    return tf.reshape(x, [batch, count * size, heads, features])[:, :length]


def _padded_mask(mask, shape, groups, padded_lengths):
    """(B|1, N|1, T|1, S|1) -> (B|1, G|1, N / G|1, I * P|1, J * Q|1)."""
    if mask is None:
        return None
    batch, heads, *lengths = sizes(mask)
    if None in mask.shape[1:]:
        # An axis of unknown size may be of size 1.
        known = zip(mask.shape[1:], shape[1:], strict=True)
        heads, *lengths = (full if size is None else size for size, full in known)
        mask = tf.broadcast_to(mask, [batch, heads, *lengths])
    for axis, length, padded in zip((2, 3), lengths, padded_lengths, strict=True):
        if not (isinstance(length, int) and length == 1):
            mask = _pad(mask, axis, padded - length)
    by_group = [1, 1] if heads == 1 else [groups, heads // groups]
    return tf.reshape(mask, [batch, *by_group, *sizes(mask)[2:]])


def _pad(x, axis, amount):
    if isinstance(amount, int) and amount == 0:
        return x
    paddings = [[0, 0]] * len(x.shape)
    paddings[axis] = [0, amount]
    return tf.pad(x, paddings)
