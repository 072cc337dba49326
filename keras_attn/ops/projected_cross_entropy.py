"""Cross entropy of a projection onto a large vocabulary, with its gradient made on the way."""

import tensorflow as tf


def projected_cross_entropy(features, table, labels, weights, label_smoothing: float = 0.0):
    """Weighted sum of the cross entropies of `softmax(features table^T)`.

    `sum_n w_n ((1 - s) ce(z_n, y_n) + s mean_v ce(z_n, v))` with the logits `z = features table^T`
    and `ce(z, v) = log sum_u exp z_u - z_v`.

    It equals `losses.token_loss` of those logits. The (N, V) numbers are read as rarely as can be:
    one product makes the logits, one kernel turns them into losses and their gradient
    `softmax(z) - onehot(y)`, and two products turn that into the gradients of features and table.
    What smoothing adds needs no pass over them: the mean logit is `features . mean(table)`, and the
    gradient's constant part is of rank one.

    Args:
        features: (N, d), float32.
        table: (V, d), float32: one row for every token of the vocabulary.
        labels: (N,) integers.
        weights: (N,) float32, 0 for tokens that do not count; they carry no gradient.
        label_smoothing: s, in [0, 1).

    Returns:
        The sum, a scalar.
    """
    return _with_gradient(label_smoothing)(features, table, labels, weights)


def _with_gradient(s: float):
    @tf.custom_gradient
    def compute(features, table, labels, weights):
        logits = tf.matmul(features, table, transpose_b=True)  # (N, V)
        cross_entropy, slope = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=logits, labels=labels
        )  # (N,), (N, V)
        label_rows = tf.gather(table, labels)  # (N, d)
        mean_row = tf.reduce_mean(table, axis=0)  # (d,)
        contrast = label_rows - mean_row  # (N, d), z_y - mean(z) = features . contrast
        smoothing = tf.reduce_sum(features * contrast, axis=1)  # (N,)
        total = tf.tensordot(weights, cross_entropy + s * smoothing, 1)

        def gradient(upstream):
            scale = (upstream * weights)[:, None]  # (N, 1)
            weighted = features * scale  # (N, d)
            d_features = scale * (tf.matmul(slope, table) + s * contrast)
            d_table = tf.matmul(slope, weighted, transpose_a=True)  # (V, d)
            if s:
                rows = tf.math.unsorted_segment_sum(weighted, labels, tf.shape(table)[0])
                everywhere = tf.reduce_sum(weighted, axis=0) / tf.cast(
                    tf.shape(table)[0], tf.float32
                )
                d_table += s * (rows - everywhere)
            return d_features, d_table, None, None

        return total, gradient

    return compute
