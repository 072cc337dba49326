"""How the state in `ops.attention_loop` scores the positions of a memory, and the way back.

Both kinds of score have the same functions; `given` is what the scan was given, with `keys` in the
layout of the kind. A query is read off the state: what the state's kernel projects beside the
gates, or the state itself.
"""

import tensorflow as tf

from keras_attn.ops.products import flat


class AdditiveScoring:
    """`e_j = v . tanh(q + k_j)`, with a projected query; keys (S, B, a).

    The gradients of q and k are sums over keys and steps of `de v (1 - t^2)`, where t is the tanh.
    A softmax has `sum_j de_j = 0`, so all that the loop must sum of it is `de t^2`. The hidden
    layers t, (B, T, S, a), are not kept but computed again.
    """

    @staticmethod
    def layout(keys):
        """(B, S, a) -> (S, B, a): a query is added to all positions fastest so."""
        return tf.transpose(keys, [1, 0, 2])

    @staticmethod
    def scores(hidden, projected, given):
        """Scores (B, S) of the query of a state."""
        layer = tf.tanh(projected + given.keys)  # (S, B, a)
        scores = tf.matmul(flat(layer), given.score_vector[:, None])  # (S * B, 1)
        return tf.transpose(tf.reshape(scores, tf.shape(layer)[:2]))

    @staticmethod
    def zero_sums(given):
        """Sums over the steps: (S, B, a), for the keys; (a,), for the vector; float32 at least."""
        dtype = tf.float64 if given.keys.dtype == tf.float64 else tf.float32
        return (
            tf.zeros_like(given.keys, dtype=dtype),
            tf.zeros_like(given.score_vector, dtype=dtype),
        )

    @staticmethod
    def step_gradient(d_scores, hidden, projected, given, sums):
        """Gradients of the projected query and of the state, None for none; the sums."""
        squares, d_vector = sums
        layer = tf.cast(tf.tanh(projected + given.keys), squares.dtype)  # (S, B, a)
        by_position = tf.transpose(d_scores)  # (S, B)
        d_vector += tf.matmul(tf.reshape(by_position, [1, -1]), flat(layer))[0]
        of_squares = by_position[..., None] * (layer * layer)
        d_query = tf.cast(tf.reduce_sum(of_squares, axis=0), projected.dtype) * -given.score_vector
        return d_query, None, (squares + of_squares, d_vector)

    @staticmethod
    def gradients(sums, d_scores, hidden, given):
        """Gradients of keys and vector, from the scores' (T, B, S) and the states before."""
        squares, d_vector = sums
        total = tf.transpose(tf.reduce_sum(d_scores, axis=0))[..., None]  # (S, B, 1)
        d_keys = tf.cast(given.score_vector, total.dtype) * (total - squares)
        return tf.cast(d_keys, given.keys.dtype), tf.cast(d_vector, given.score_vector.dtype)


class ProductScoring:
    """`e_j = h . k_j`, the query being the state itself; keys (B, S, units)."""

    @staticmethod
    def layout(keys):
        return keys

    @staticmethod
    def scores(hidden, projected, given):
        """Scores (B, S) of a state; nothing was projected, (B, 0)."""
        return tf.matmul(hidden[:, None], given.keys, transpose_b=True)[:, 0]

    @staticmethod
    def zero_sums(given):
        return ()

    @staticmethod
    def step_gradient(d_scores, hidden, projected, given, sums):
        """Gradients of what was projected, nothing, and of the state."""
        d_hidden = tf.matmul(tf.cast(d_scores, hidden.dtype)[:, None], given.keys)[:, 0]
        return projected, d_hidden, sums

    @staticmethod
    def gradients(sums, d_scores, hidden, given):
        """Gradients of keys and vector, from the scores' (T, B, S) and the states before."""
        return tf.einsum("tbs,tbu->bsu", tf.cast(d_scores, hidden.dtype), hidden), None
