"""Cross entropy of a projection onto a large vocabulary, with its gradient made on the way."""

import tensorflow as tf

# Within these the exponentials of logits, their sums and products with features and table neither
# overflow nor lose a share that float32 could tell.
_SMALLEST_TOTAL, _LARGEST_TOTAL = 1e-20, 1e20
_SMALLEST_FACTOR, _LARGEST_FACTOR = 1e-8, 1e8


def projected_cross_entropy(features, table, labels, weights, label_smoothing: float = 0.0):
    """Weighted sum of the cross entropies of `softmax(features table^T)`.

    `sum_n w_n ((1 - s) ce(z_n, y_n) + s mean_v ce(z_n, v))` with the logits `z = features table^T`
    and `ce(z, v) = log sum_u exp z_u - z_v`.

    It equals `losses.token_loss` of those logits. The (N, V) numbers are touched as rarely as can
    be: one product makes the logits, one pass takes their exponentials e, one sums them to t, and
    two products turn e into the gradients of features and table. The division by t is left to the
    d-wide side, `(e table) / t` and `e^T (features / t)`; what label and smoothing add to the
    gradient, `-(1 - s) onehot(y) - s / V`, is of rank one for each token and never written out.

    Exponentials are taken of the logits as they are, which saves the pass for their largest. That
    is as exact while the sums t are far from the limits of float32; when they are not, logits above
    46 for example, the largest of each row is subtracted first.

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
        label_rows = tf.gather(table, labels)  # (N, d)
        mean_row = tf.reduce_mean(table, axis=0)  # (d,)
        exponentials, totals, surprise = _softmax_parts(
            features, table, label_rows, labels, weights
        )  # (N, V), (N,), (N,)
        contrast = label_rows - mean_row  # (N, d), z_y - mean(z) = features . contrast
        smoothing = tf.reduce_sum(features * contrast, axis=1)  # (N,)
        total = tf.tensordot(weights, surprise + s * smoothing, 1)

        def gradient(upstream):
            scale = weights[:, None]  # (N, 1)
            weighted = features * scale  # (N, d)
            expected_rows = tf.matmul(exponentials, table) / totals[:, None]  # (N, d)
            d_features = scale * (expected_rows - label_rows + s * contrast)
            # A fifth faster than e^T (features / t), whose large factor would be the turned one.
            turned = tf.matmul(weighted / totals[:, None], exponentials, transpose_a=True)  # (d, V)
            d_table = tf.transpose(turned)
            size = tf.shape(table)[0]
            d_table -= (1 - s) * tf.math.unsorted_segment_sum(weighted, labels, size)
            if s:
                d_table -= s * tf.reduce_sum(weighted, axis=0) / tf.cast(size, tf.float32)
            return upstream * d_features, upstream * d_table, None, None

        return total, gradient

    return compute


def _softmax_parts(features, table, label_rows, labels, weights):
    """Exponentials and sums whose quotient is the softmax, and -log of the label's share.

    Returns:
        `exp(z - c)` (N, V), its sums (N,) and `log sum exp z - z_y` (N,); c is 0 or the largest z.
    """

    def plain():
        at_label = tf.reduce_sum(features * label_rows, axis=1)
        return exponentials, totals, tf.math.log(totals) - at_label

    def shifted():
        logits = tf.matmul(features, table, transpose_b=True)
        logits -= tf.reduce_max(logits, axis=1, keepdims=True)
        exponentials = tf.exp(logits)
        totals = tf.reduce_sum(exponentials, axis=1)
        at_label = tf.gather(logits, labels, batch_dims=1)
        return exponentials, totals, tf.math.log(totals) - at_label

    exponentials = tf.exp(tf.matmul(features, table, transpose_b=True))
    totals = tf.reduce_sum(exponentials, axis=1)
    return tf.cond(_is_tame(totals, features, table, weights), plain, shifted)


def _is_tame(totals, features, table, weights):
    """Whether nothing comes near the limits of float32; False where there is a NaN."""
    factors = _largest(features) * _largest(weights)
    return (
        tf.reduce_all((totals > _SMALLEST_TOTAL) & (totals < _LARGEST_TOTAL))
        & (factors > _SMALLEST_FACTOR)
        & (factors < _LARGEST_FACTOR)
        & (_largest(table) < _LARGEST_FACTOR)
    )


def _largest(x):
    """The largest absolute value, NaN if there is one, in passes that write nothing."""
    return tf.maximum(tf.reduce_max(x), -tf.reduce_min(x))
