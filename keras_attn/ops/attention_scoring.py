"""How the state in `ops.attention_loop` scores the positions of a memory, and the way back.

Both kinds of score have the same functions; `given` is what the loop was given, with `keys` in the
layout of the kind. A query is a tuple, of what the query's kernel makes of the state, or empty
where the state itself is the query.
"""

import tensorflow as tf

from keras_attn.ops.compilation import in_one_pass
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.products import flat, sum_of_outer_products, sum_of_rows


class AdditiveScoring:
    """`e_j = v . tanh(q + k_j)`, with a projected query; keys (S, B, a).

    The gradients of q and k are sums over keys and steps of `de v (1 - t^2)`, where t is the tanh.
    The hidden layers t, (B, T, S, a), are not kept but computed again.
    """

    @staticmethod
    def layout(keys):
        """(B, S, a) -> (S, B, a): a query is added to all positions fastest so."""
        return tf.transpose(keys, [1, 0, 2])

    @staticmethod
    def query(hidden, given):
        """The query (B, a) of a state."""
        query = tf.matmul(hidden, given.query_kernel)
        return (query if given.query_bias is None else query + given.query_bias,)

    @staticmethod
    def scores(hidden, query, given):
        """Scores (B, S) of the query of a state."""
        return in_one_pass(_scores, query[0], given.keys, given.score_vector)

    @staticmethod
    def zero_sums(given):
        """Sums over the steps: (S, B, a), for the keys; (a,), for the vector; float32 at least."""
        dtype = wide_dtype(given.keys.dtype)
        return (
            tf.zeros_like(given.keys, dtype=dtype),
            tf.zeros_like(given.score_vector, dtype=dtype),
        )

    @staticmethod
    def step_gradient(d_scores, hidden, query, given, turned_query_kernel, sums):
        """Gradients of the query, a tuple, and of the state by it; the sums."""
        d_keys, d_vector = sums
        vector = tf.cast(given.score_vector, d_keys.dtype)
        layer, d_sum, by_position = in_one_pass(
            _layer_and_gradient, query[0], given.keys, vector, d_scores
        )
        d_vector += tf.matmul(by_position, flat(layer), transpose_a=True)[0]
        d_query = tf.cast(tf.reduce_sum(d_sum, axis=0), hidden.dtype)
        d_hidden = tf.matmul(d_query, turned_query_kernel)
        return (d_query,), d_hidden, (d_keys + d_sum, d_vector)

    @staticmethod
    def gradients(sums, d_scores, d_query, hidden, given) -> dict:
        """Of what is the score's in `given`, from all steps and the states before them."""
        d_keys, d_vector = sums
        return {
            "keys": tf.cast(d_keys, given.keys.dtype),
            "score_vector": tf.cast(d_vector, given.score_vector.dtype),
            "query_kernel": sum_of_outer_products(hidden, d_query[0]),
            "query_bias": None if given.query_bias is None else sum_of_rows(d_query[0]),
        }


def _scores(query, keys, vector):
    """Scores (B, S) of queries (B, a) against keys (S, B, a)."""
    layer = tf.tanh(query + keys)
    scores = tf.matmul(flat(layer), vector[:, None])  # (S * B, 1)
    return tf.transpose(tf.reshape(scores, tf.shape(layer)[:2]))


def _layer_and_gradient(query, keys, vector, d_scores):
    """The hidden layer, the gradient of its sum q + k, (S, B, a) each; d_scores as (S * B, 1)."""
    layer = tf.cast(tf.tanh(query + keys), vector.dtype)
    by_position = tf.reshape(tf.transpose(d_scores), [-1, 1])
    # A product of matrices, for to multiply along the last axis takes twice as long without XLA.
    d_layer = tf.reshape(tf.matmul(by_position, vector[None]), tf.shape(layer))
    return layer, tf.raw_ops.TanhGrad(y=layer, dy=d_layer), by_position


class ProductScoring:
    """`e_j = h . k_j`, the query being the state itself; keys (B, S, units)."""

    @staticmethod
    def layout(keys):
        return keys

    @staticmethod
    def query(hidden, given):
        return ()

    @staticmethod
    def scores(hidden, query, given):
        """Scores (B, S) of a state."""
        return tf.matmul(hidden[:, None], given.keys, transpose_b=True)[:, 0]

    @staticmethod
    def zero_sums(given):
        return ()

    @staticmethod
    def step_gradient(d_scores, hidden, query, given, turned_query_kernel, sums):
        """Gradients of the query, none, and of the state."""
        d_hidden = tf.matmul(tf.cast(d_scores, hidden.dtype)[:, None], given.keys)[:, 0]
        return (), d_hidden, sums

    @staticmethod
    def gradients(sums, d_scores, d_query, hidden, given) -> dict:
        """Of what is the score's in `given`, from all steps and the states before them."""
        d_keys = tf.einsum("tbs,tbu->bsu", tf.cast(d_scores, hidden.dtype), hidden)
        return {"keys": d_keys, "score_vector": None, "query_kernel": None, "query_bias": None}
