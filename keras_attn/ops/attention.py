"""Scaled dot-product attention with grouped heads."""

import tensorflow as tf
from keras import ops

from keras_attn.ops import masks
from keras_attn.ops.attention_shapes import require_shapes, scores_shape
from keras_attn.ops.blockwise_attention import blockwise_attention, seed_of
from keras_attn.ops.scalars import as_scalar

METHODS = ("auto", "dense", "blockwise")
SHORTEST_BLOCKWISE = 256
MOST_DENSE_WEIGHTS = 2**27


def dot_product_attention(
    query,
    key,
    value,
    mask=None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    method: str = "auto",
    return_weights: bool = False,
    dropout: float = 0.0,
    seed=None,
):
    """Average the values by the softmax of the scaled products of queries and keys.

    `a_ts = softmax_s(scale q_t . k_s)` over the keys that the masks leave, `o_t = sum_s a_ts v_s`,
    for every head. The scale is 1 / sqrt(d) because the product of two vectors of d independent
    numbers of variance 1 has the variance d: without it the softmax of a wide head is nearly one
    hot, and its gradient nearly 0.

    With fewer key-value heads than query heads, each serves a group of N / Nkv adjacent query
    heads. A query with no key left gets weights and an output of exactly 0. A key that is hidden
    from every query has no influence whatever it holds, NaN included.

    Args:
        query: (B|1, T, N, d).
        key: (B, S, Nkv, d), N a multiple of Nkv.
        value: (B, S, Nkv, dv).
        mask: boolean, True where a query may attend: (B, S), (B|1, T, S) or (B|1, N|1, T, S).
        causal: whether query t sees no key after t + S - T.
        window: query t sees keys s with |t + S - T - s| < window; None for all.
        scale: factor of the scores. Defaults to `1 / sqrt(d)`.
        method: `"dense"` holds all T x S weights; `"blockwise"` one block of them at a time, exact
            too (see `blockwise_attention`); `"auto"` chooses by `chooses_blockwise`, and holds them
            where they are returned.
        return_weights: whether to return the weights too, before dropout.
        dropout: probability that a weight is dropped; the others are divided by 1 - dropout.
        seed: two integers that decide which, such as the next() of a `keras.random.SeedGenerator`;
            each method drops others.

    Returns:
        Outputs (B, T, N, dv) [, weights (B, N, T, S)] in the dtype of the values.

    Raises:
        ValueError: shapes that do not go together, a mask that is not boolean or does not fit, a
            window that is not a positive integer, an unknown method, weights of `"blockwise"`,
            dropout without a seed.

    Example:

    >>> from keras import ops
    >>> from keras_attn.ops import dot_product_attention
    >>> query, key = ops.ones((2, 3, 4, 8)), ops.ones((2, 5, 2, 8))
    >>> output, weights = dot_product_attention(query, key, key, return_weights=True)
    >>> output.shape, weights.shape
    (TensorShape([2, 3, 4, 8]), TensorShape([2, 4, 3, 5]))

    References:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
        Ainslie et al. 2023, "GQA", https://arxiv.org/abs/2305.13245
        Beltagy et al. 2020, "Longformer" (the window), https://arxiv.org/abs/2004.05150
    """
    require_method(method)
    require_shapes(query, key, value)
    if method == "blockwise" and return_weights:
        raise ValueError(
            "Blockwise attention never holds all weights, so that it cannot return them: use "
            "method='dense' or 'auto' for that. Received: method='blockwise', return_weights=True"
        )
    if method == "auto":
        blockwise = not return_weights and chooses_blockwise(query, key, causal, window)
        method = "blockwise" if blockwise else "dense"
    if method == "blockwise":
        return blockwise_attention(
            query, key, value, mask, causal, window, scale, dropout=dropout, seed=seed
        )
    weights, value = attention_weights(query, key, value, mask, causal, window, scale)
    output = weighted_values(drop_weights(weights, dropout, seed) if dropout else weights, value)
    return (output, weights) if return_weights else output


def require_method(method: str):
    """Raise `ValueError` unless there is such a method of attention."""
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS}. Received: method={method!r}")


def chooses_blockwise(query, key, causal: bool = False, window: int | None = None) -> bool:
    """Whether `method="auto"` attends blockwise, where no weights are returned.

    Measured on one core of a CPU with heads of 64 features, float32:

    - What skips blocks wins from 256 queries and keys on: half of them in causal attention (1.2
      times as fast at 256, 1.5 to 2 at 1024 and more, more still with a window).
    - Where nothing is skipped the dense method is up to a third faster, as long as its weights lie
      in the memory at hand: above 2^27 of them, half a gigabyte in each of the copies that the
      gradient needs, memory decides.
    - Unknown lengths are dense: most are those of sentences, which would be padded to a block.
      Pass `method="blockwise"` for what may be long.
    """
    (batch, queries, heads, _), keys = query.shape, key.shape[1]
    if queries is None or keys is None or min(queries, keys) < SHORTEST_BLOCKWISE:
        return False
    skips = causal or (window is not None and 2 * window <= keys)
    return skips or (batch or 1) * heads * queries * keys > MOST_DENSE_WEIGHTS


def drop_weights(weights, dropout, seed):
    """Weights of which some are dropped, and the others divided by the share that is kept."""
    return tf.nn.experimental.stateless_dropout(weights, dropout, seed=seed_of(dropout, seed))


def attention_weights(query, key, value, mask=None, causal=False, window=None, scale=None):
    """Weights of every key, and the values with what nobody sees cleared.

    Arguments as those of `dot_product_attention`.

    Returns:
        Weights (B, N, T, S) in the dtype of the values, and the values to give
        `weighted_values` (B, S, Nkv, dv).
    """
    shape = scores_shape(query, key)
    visible = masks.visible(shape, mask, causal, window)
    if mask is not None:
        seen = masks.seen_keys(visible)
        key, value = masks.clear_hidden(key, seen), masks.clear_hidden(value, seen)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    query = query * as_scalar(scale, query.dtype)
    scores = ops.matmul(_group(query, key.shape[2]), ops.transpose(key, (0, 2, 3, 1)))
    scores = ops.reshape(scores, shape)  # (B, N, T, S)
    return ops.cast(masks.masked_softmax(scores, visible), value.dtype), value


def weighted_values(weights, value):
    """Sums of the values: weights (B, N, T, S), value (B, S, Nkv, dv) -> (B, T, N, dv)."""
    batch, heads, query_length, key_length = ops.shape(weights)
    groups, features = value.shape[2], value.shape[3]
    per_group = heads // groups
    weights = ops.reshape(weights, (batch, groups, per_group * query_length, key_length))
    output = ops.matmul(weights, ops.transpose(value, (0, 2, 1, 3)))
    output = ops.reshape(output, (batch, groups, per_group, query_length, features))
    output = ops.transpose(output, (0, 3, 1, 2, 4))  # (B, T, Nkv, N / Nkv, dv)
    return ops.reshape(output, (batch, query_length, heads, features))


def _group(query, groups):
    """Put the query heads of a group side by side: (B, T, N, d) -> (B, Nkv, N / Nkv * T, d)."""
    batch, query_length, heads, features = ops.shape(query)
    query = ops.reshape(query, (batch, query_length, groups, heads // groups, features))
    query = ops.transpose(query, (0, 2, 3, 1, 4))  # (B, Nkv, N / Nkv, T, d)
    return ops.reshape(query, (batch, groups, heads // groups * query_length, features))
