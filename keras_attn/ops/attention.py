"""Scaled dot-product attention with grouped heads."""

from keras import ops

from keras_attn.ops import masks


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
        method: `"dense"` holds all T x S weights; `"auto"` chooses, and there is one to choose.
        return_weights: whether to return the weights too.

    Returns:
        Outputs (B, T, N, dv) [, weights (B, N, T, S)] in the dtype of the values.

    Raises:
        ValueError: shapes that do not go together, a mask that is not boolean or does not fit, a
            window that is not a positive integer, an unknown method.

    Example:

    >>> query, key = ops.ones((2, 3, 4, 8)), ops.ones((2, 5, 2, 8))
    >>> output, weights = dot_product_attention(query, key, key, return_weights=True)
    >>> output.shape, weights.shape
    (TensorShape([2, 3, 4, 8]), TensorShape([2, 4, 3, 5]))

    References:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
        Ainslie et al. 2023, "GQA", https://arxiv.org/abs/2305.13245
        Beltagy et al. 2020, "Longformer" (the window), https://arxiv.org/abs/2004.05150
    """
    if method not in _METHODS:
        raise ValueError(f"`method` must be one of {tuple(_METHODS)}. Received: method={method!r}")
    require_shapes(query, key, value)
    attend = _METHODS[method]
    output, weights = attend(query, key, value, mask, causal, window, scale)
    return (output, weights) if return_weights else output


def _dense(query, key, value, mask, causal, window, scale):
    weights, value = attention_weights(query, key, value, mask, causal, window, scale)
    return weighted_values(weights, value), weights


_METHODS = {"auto": _dense, "dense": _dense}


def scores_shape(query, key):
    """(B, N, T, S) of queries (B|1, T, N, d) and keys (B|1, S, Nkv, d)."""
    return (
        masks.broadcast_batch(query, key),
        query.shape[2],
        ops.shape(query)[1],
        ops.shape(key)[1],
    )


def attention_weights(query, key, value, mask=None, causal=False, window=None, scale=None):
    """Weights of every key, and the values with what nobody sees cleared.

    The two steps of `dot_product_attention` apart, for a layer that drops weights in between.
    Arguments as there.

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
    query = query * ops.cast(scale, query.dtype)
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


def require_shapes(query, key, value):
    """Raise `ValueError` unless queries, keys and values go together."""
    shapes = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    received = "Received: query.shape={}, key.shape={}, value.shape={}".format(*shapes)
    if any(len(shape) != 4 for shape in shapes):
        raise ValueError(
            f"query, key and value must have the axes (batch, length, heads, features). {received}"
        )
    query_shape, key_shape, value_shape = shapes
    if query_shape[3] != key_shape[3]:
        raise ValueError(f"Queries and keys must have equally many features. {received}")
    if key_shape[2] != value_shape[2] or query_shape[2] % key_shape[2]:
        raise ValueError(
            "Keys and values must have equally many heads, and the query heads must be a multiple "
            f"of them. {received}"
        )
    if None not in (key_shape[1], value_shape[1]) and key_shape[1] != value_shape[1]:
        raise ValueError(f"Keys and values must be equally many. {received}")
    batches = {shape[0] for shape in shapes} - {None, 1}
    if len(batches) > 1:
        raise ValueError(f"The batch sizes must be equal, or 1 for the queries. {received}")
