"""Attention by online softmax: the loops over blocks, and their gradient, which recomputes."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import masks
from keras_attn.ops.precision import at_least_float32, wide_dtype
from keras_attn.ops.shapes import sizes

_HIDDEN = float("-inf")
_LOWEST = -1.7e38
"""Where the running maximum begins: above what is hidden, and finite, so that no row is NaN."""


class Plan(NamedTuple):
    """What is known of an attention beside its tensors."""

    query_size: int  # P, queries of a block
    causal: bool
    window: int | None
    padded: bool  # whether the last block of keys may hold more than the keys
    dropout: float
    mask_by_query: bool  # whether the mask has an axis of queries,
    mask_by_key: bool  # and one of keys, not only of size 1


class Blocks(NamedTuple):
    """Tensors in I blocks of P queries and J blocks of Q keys.

    G groups of H query heads share a key head. Floating tensors are differentiated by.
    """

    query: tf.Tensor  # (I, B, G, H * P, d), scaled
    key: tf.Tensor  # (J, B, G, Q, d)
    value: tf.Tensor  # (J, B, G, Q, dv)
    lengths: tf.Tensor  # (2,): T and S
    first: tf.Tensor  # (I,): the first block of keys that a block of queries sees,
    count: tf.Tensor  # (I,): and how many
    order: tf.Tensor | None  # (I, J): their numbers, None where they follow the first
    mask: tf.Tensor | None  # (B|1, G|1, H|1, I * P | 1, J * Q | 1), boolean
    seed: tf.Tensor | None  # (2,), of the dropout

    def key_block(self, i, n):
        """The number of the n-th block of keys that block i of the queries sees."""
        return self.first[i] + n if self.order is None else self.order[i, n]


@tf.function(autograph=False)
def attend(plan: Plan, blocks: Blocks):
    """Outputs `o_t = sum_s a_ts v_s` and, of every query, `log sum_s exp(score_ts)`.

    Blocks of keys are added one after another (Milakov and Gimelshein 2018; Rabe and Staats
    2021): with the highest score m so far, `l = sum exp(score - m)` and `o = sum exp(score - m) v`
    are both scaled by `exp(m - m')` when a block has a higher score m'.

    Returns:
        `((outputs,), (log_sums,))`: (I, B, G, H * P, dv) in the dtype of the values, and
        (I, B, G, H * P, 1) in float32 at least.
    """
    features = blocks.value.shape[-1]

    def query_block(i, outputs, log_sums):
        query = at_least_float32(blocks.query[i])
        rows = sizes(query)[:-1]

        def key_block(n, weighted, total, highest):
            j = blocks.key_block(i, n)
            scores = _scores(plan, blocks, query, i, j)
            new_highest = tf.stop_gradient(
                tf.maximum(highest, tf.reduce_max(scores, axis=-1, keepdims=True))
            )
            weights = tf.exp(scores - new_highest)  # (B, G, H * P, Q)
            shrunk = tf.exp(highest - new_highest)
            total = total * shrunk + tf.reduce_sum(weights, axis=-1, keepdims=True)
            if plan.dropout:
                weights *= _kept(plan, blocks, weights, i, j)
            weighted = weighted * shrunk + tf.matmul(weights, at_least_float32(blocks.value[j]))
            return n + 1, weighted, total, new_highest

        zero = tf.zeros([*rows, 1], query.dtype)
        _, weighted, total, highest = tf.while_loop(
            lambda n, *_: n < blocks.count[i],
            key_block,
            (0, tf.zeros([*rows, features], query.dtype), zero, zero + _LOWEST),
            maximum_iterations=sizes(blocks.key)[0],
            parallel_iterations=1,
        )
        total = tf.where(total > 0, total, tf.ones_like(total))
        output = tf.cast(weighted / total, blocks.value.dtype)
        return i + 1, outputs.write(i, output), log_sums.write(i, highest + tf.math.log(total))

    block_shape = blocks.query.shape[1:-1]
    wide = wide_dtype(blocks.query.dtype)
    _, outputs, log_sums = _for_each_query_block(
        blocks,
        query_block,
        _array(blocks.query, [*block_shape, features], blocks.value.dtype),
        _array(blocks.query, [*block_shape, 1], wide),
    )
    return (outputs.stack(),), (log_sums.stack(),)


@tf.function(autograph=False)
def gradient(plan: Plan, blocks: Blocks, outputs, saved, output_gradients):
    """Gradients for the queries, keys and values, from weights that are computed once more.

    With `a` the weights, `dA = dO V^T` and `D_t = dO_t . o_t`: `dV = A^T dO`,
    `dS = A (dA - D)`, `dQ = dS K`, `dK = dS^T Q` (Dao et al. 2022). Weights that were dropped are
    drawn again from the same seed. The gradients of keys and values are summed in float32, block by
    block in place, so that every product is computed once.
    """
    (outputs,), (log_sums,), (d_outputs,) = outputs, saved, output_gradients

    def query_block(i, d_queries, d_keys, d_values):
        query, d_output = at_least_float32(blocks.query[i]), at_least_float32(d_outputs[i])
        mean = tf.reduce_sum(d_output * at_least_float32(outputs[i]), axis=-1, keepdims=True)
        log_sum = log_sums[i]

        def key_block(n, d_query, d_keys, d_values):
            j = blocks.key_block(i, n)
            weights = tf.exp(_scores(plan, blocks, query, i, j) - log_sum)  # (B, G, H * P, Q)
            d_weights = tf.matmul(d_output, at_least_float32(blocks.value[j]), transpose_b=True)
            used = weights
            if plan.dropout:
                kept = _kept(plan, blocks, weights, i, j)
                d_weights, used = d_weights * kept, weights * kept
            d_scores = weights * (d_weights - mean)
            d_query += tf.matmul(d_scores, at_least_float32(blocks.key[j]))
            d_key = tf.matmul(d_scores, query, transpose_a=True)
            d_value = tf.matmul(used, d_output, transpose_a=True)
            d_keys = d_keys.write(j, d_keys.read(j) + d_key)
            d_values = d_values.write(j, d_values.read(j) + d_value)
            return n + 1, d_query, d_keys, d_values

        _, d_query, d_keys, d_values = tf.while_loop(
            lambda n, *_: n < blocks.count[i],
            key_block,
            (0, tf.zeros(sizes(query), query.dtype), d_keys, d_values),
            parallel_iterations=1,
        )
        d_query = tf.cast(d_query, blocks.query.dtype)
        return i + 1, d_queries.write(i, d_query), d_keys, d_values

    _, d_queries, d_keys, d_values = _for_each_query_block(
        blocks,
        query_block,
        _array(blocks.query, blocks.query.shape[1:], blocks.query.dtype),
        _zeros(blocks.key),
        _zeros(blocks.value),
    )
    nothing = Blocks(*[None] * len(blocks))
    return nothing._replace(
        query=d_queries.stack(),
        key=tf.cast(d_keys.stack(), blocks.key.dtype),
        value=tf.cast(d_values.stack(), blocks.value.dtype),
    )


def _for_each_query_block(blocks, body, *arrays):
    count = sizes(blocks.query)[0]
    # XLA can differentiate a loop, for a second derivative, if it knows the most steps.
    return tf.while_loop(
        lambda i, *_: i < count,
        body,
        (0, *arrays),
        maximum_iterations=count,
        parallel_iterations=1,
    )


def _scores(plan, blocks, query, i, j):
    """Scores of queries (B, G, H * P, d) with block j of the keys, -inf where hidden."""
    scores = tf.matmul(query, at_least_float32(blocks.key[j]), transpose_b=True)  # (B, G, H * P, Q)
    visible = _visible(plan, blocks, i, j)
    if visible is None:
        return scores
    apart = _heads_apart(plan, scores)
    hidden = tf.constant(_HIDDEN, scores.dtype)
    return tf.reshape(tf.where(visible, tf.reshape(scores, apart), hidden), sizes(scores))


def _heads_apart(plan, scores):
    """The shape (B, G, H, P, Q) of scores (B, G, H * P, Q)."""
    batch, groups, rows, keys = sizes(scores)
    return [batch, groups, rows // plan.query_size, plan.query_size, keys]


def _visible(plan, blocks, i, j):
    """Which keys of block j the queries of block i see: (B|1, G|1, H|1, P|1, Q|1) or None."""
    by_position = None
    key_size = blocks.key.shape[-2]
    if plan.causal or plan.window is not None or plan.padded:
        queries, keys = blocks.lengths[0], blocks.lengths[1]
        query_position = tf.range(plan.query_size) + (i * plan.query_size + keys - queries)
        key_position = tf.range(key_size) + j * key_size
        key_position = tf.where(key_position < keys, key_position, -1)
        by_position = masks.position_mask(
            query_position[None], key_position[None], plan.causal, plan.window
        )[None, None]
    return masks.combine(_part_of_mask(plan, blocks, i, j), by_position)


def _part_of_mask(plan, blocks, i, j):
    """The mask of block i of the queries and block j of the keys."""
    if blocks.mask is None:
        return None
    rows = plan.query_size if plan.mask_by_query else 1
    columns = blocks.key.shape[-2] if plan.mask_by_key else 1
    begin = [0, 0, 0, i * rows if plan.mask_by_query else 0, j * columns if plan.mask_by_key else 0]
    return tf.slice(blocks.mask, begin, [*sizes(blocks.mask)[:3], rows, columns])


def _kept(plan, blocks, weights, i, j):
    """1 / (1 - dropout) for the weights that are kept and 0 for the others, of blocks i and j."""
    fold_in = tf.random.experimental.stateless_fold_in
    seed = fold_in(fold_in(blocks.seed, i, "philox"), j, "philox")
    # Integers, for of the floats XLA draws others, and one pass may be compiled and one not.
    drawn = tf.random.stateless_uniform(
        sizes(weights), seed, minval=None, maxval=None, dtype=tf.int32, alg="philox"
    )
    dropped_below = round(plan.dropout * 2**32) - 2**31
    return tf.cast(drawn >= dropped_below, weights.dtype) / (1 - plan.dropout)


def _array(blocks, element_shape, dtype):
    return tf.TensorArray(dtype, sizes(blocks)[0], element_shape=element_shape)


def _zeros(blocks):
    """Sums that begin with 0, one for each block."""
    dtype = wide_dtype(blocks.dtype)
    return _array(blocks, blocks.shape[1:], dtype).unstack(tf.zeros(sizes(blocks), dtype))
