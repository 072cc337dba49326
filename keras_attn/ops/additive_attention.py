"""Additive attention: the score is a small network of the query and the key."""

from keras import ops

from keras_attn.ops import masks
from keras_attn.ops.attention import drop_weights
from keras_attn.ops.products import times


def project(inputs, kernel):
    """Multiply features by a kernel in the dtype of the features: (..., D) -> (..., units)."""
    # Not Keras' product, which XLA cannot differentiate within a loop where the batch is unknown.
    return times(inputs, ops.cast(kernel, inputs.dtype))


def additive_scores(query, keys, score_vector, bias=None, score_scale=None):
    """Scores of projected queries against projected keys.

    `e_ts = v . tanh(q_t + k_s + b)`, and with a `score_scale` g the vector `g v / |v|` in the place
    of `v` (weight normalisation, as in TensorFlow Addons' `BahdanauAttention(normalize=True)`).

    Args:
        query: projected queries (B|1, T, units).
        keys: projected keys (B, S, units).
        score_vector: v, (units,).
        bias: b, (units,), or None.
        score_scale: g, a scalar, or None.

    Returns:
        Scores (B, T, S). The call holds (B, T, S, units) numbers in between.

    Reference:
        Bahdanau, Cho, Bengio 2014, "Neural machine translation by jointly learning to align and
        translate", appendix A.1.2, https://arxiv.org/abs/1409.0473
    """
    if bias is not None:
        query = query + ops.cast(bias, query.dtype)
    if score_scale is not None:
        score_vector = normalised(score_vector, score_scale)
    hidden = ops.tanh(query[:, :, None, :] + keys[:, None, :, :])  # (B, T, S, units)
    return ops.einsum("btsu,u->bts", hidden, ops.cast(score_vector, hidden.dtype))


def normalised(vector, scale):
    """The vector with the length `scale`: `g v / |v|`."""
    # The floor is below any square that float32 can tell from 0.
    squares = ops.maximum(ops.sum(ops.square(vector)), 1e-30)
    return scale * vector * ops.rsqrt(squares)


def scores_shape(query, keys):
    """(B, T, S) of queries (B|1, T, D) and keys (B|1, S, D)."""
    return masks.broadcast_batch(query, keys), ops.shape(query)[1], ops.shape(keys)[1]


def additive_attention(
    query,
    keys,
    values,
    score_vector,
    bias=None,
    score_scale=None,
    mask=None,
    causal: bool = False,
    dropout: float = 0.0,
    seed=None,
):
    """Average the values by the softmax of their additive scores.

    `a_ts = exp(e_ts) / sum_r exp(e_tr)` over the keys the mask leaves, `c_t = sum_s a_ts value_s`.
    A query with no key left gets weights and a context of exactly 0.

    Args:
        query: projected queries (B|1, T, units).
        keys: projected keys (B, S, units); project a memory once, not at every step.
        values: (B, S, Dv).
        score_vector: (units,).
        bias: (units,) or None.
        score_scale: a scalar or None; see `additive_scores`.
        mask: boolean (B, S) or (B|1, T, S), True where a query may attend, or None.
        causal: whether a query sees no key after its own position, the last query being at the
            last key.
        dropout: probability that a weight is dropped; the others are divided by 1 - dropout.
        seed: two integers that decide which.

    Returns:
        Contexts (B, T, Dv) and weights (B, T, S) before dropout, in the dtype of the values.

    Raises:
        ValueError: the mask is not boolean or does not fit, dropout without a seed.

    Example:

    >>> from keras import ops
    >>> from keras_attn.ops import additive_attention
    >>> query, keys = ops.ones((2, 3, 8)), ops.ones((2, 5, 8))
    >>> context, weights = additive_attention(query, keys, ops.ones((2, 5, 4)), ops.ones((8,)))
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 5))
    """
    visible = masks.visible(scores_shape(query, keys), mask, causal=causal)
    if visible is not None:
        seen = masks.seen_keys(visible)
        keys, values = masks.clear_hidden(keys, seen), masks.clear_hidden(values, seen)
    scores = additive_scores(query, keys, score_vector, bias, score_scale)
    weights = ops.cast(masks.masked_softmax(scores, visible), values.dtype)
    kept = drop_weights(weights, dropout, seed) if dropout else weights
    return ops.matmul(kept, values), weights
