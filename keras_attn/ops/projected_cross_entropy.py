"""Cross entropy of a projection onto a large vocabulary, with its gradient made on the way."""

import math

import tensorflow as tf

from keras_attn.ops.labels import known_labels, require_smoothing, require_z_loss

# Within these the exponentials of logits, their sums and products with features and table neither
# overflow nor lose a share that float32 could tell.
_SMALLEST_TOTAL, _LARGEST_TOTAL = 1e-20, 1e20
_SMALLEST_FACTOR, _LARGEST_FACTOR = 1e-8, 1e8


def projected_cross_entropy(
    features, table, labels, weights, label_smoothing: float = 0.0, z_loss: float = 0.0
):
    """Weighted sum of the cross entropies of `softmax(features table^T)`.

    `sum_n w_n ((1 - s) ce(z_n, y_n) + s mean_v ce(z_n, v) + c lse(z_n)^2)` with the logits
    `z = features table^T`, `lse(z) = log sum_u exp z_u` and `ce(z, v) = lse(z) - z_v`.

    It equals `losses.token_loss` of those logits. The (N, V) numbers are touched as rarely as can
    be: one product makes the logits, one pass takes their exponentials e, one sums them to t, and
    two products turn e into the gradients of features and table. The division by t is left to the
    d-wide side, `(e table) / t` and `e^T (features / t)`; what label and smoothing add to the
    gradient, `-(1 - s) onehot(y) - s / V`, is of rank one for each token and never written out. The
    square of lse multiplies the softmax in the gradient by `1 + 2 c lse`, a number for each token.

    Exponentials are taken of the logits as they are, which saves the pass for their largest. That
    is as exact while the sums t are far from the limits of float32; when they are not, logits above
    46 for example, the largest of each row is subtracted first.

    Args:
        features: (N, d), float32.
        table: (V, d), float32: one row for every token of the vocabulary.
        labels: (N,) integers.
        weights: (N,) float32, 0 for tokens that do not count; they carry no gradient. What a token
            without weight has for features and label is ignored.
        label_smoothing: s, in [0, 1).
        z_loss: c, as in `losses.token_loss`.

    Returns:
        The sum, a scalar.

    Raises:
        ValueError: if a shape or a factor is another than above, or a label with a weight is
            outside of [0, V). In a graph the last is an `InvalidArgumentError`; XLA can raise
            nothing, and there the sum is NaN and such a token has no gradient.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.ops import projected_cross_entropy
        >>> loss = projected_cross_entropy(tf.zeros([2, 3]), tf.ones([4, 3]), [0, 1], [1.0, 0.0])
        >>> round(float(loss), 4)  # log 4, of the one token that counts
        1.3863
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)
    features, table = tf.convert_to_tensor(features), tf.convert_to_tensor(table)
    labels, weights = tf.convert_to_tensor(labels), tf.convert_to_tensor(weights)
    _require_shapes(features, table, labels, weights)
    counts = weights != 0
    labels, outside = known_labels(labels, tf.shape(table)[0], counts)
    features = tf.where(counts[:, None], features, 0.0)
    weights = tf.where(outside, 0.0, weights)
    total = _with_gradient(label_smoothing, z_loss)(features, table, labels, weights)
    return total + tf.where(tf.reduce_any(outside), math.nan, 0.0)


def _require_shapes(features, table, labels, weights) -> None:
    tokens, width = tf.TensorShape([None]), tf.TensorShape([None, None])
    wanted = {"features": width, "table": width, "labels": tokens, "weights": tokens}
    given = {"features": features, "table": table, "labels": labels, "weights": weights}
    shapes = {name: tensor.shape for name, tensor in given.items()}
    fits = all(shapes[name].is_compatible_with(shape) for name, shape in wanted.items())
    if fits:
        rows = [shapes[name][:1] for name in ("features", "labels", "weights")]
        fits = all(one.is_compatible_with(other) for one in rows for other in rows)
        fits &= shapes["features"][1:].is_compatible_with(shapes["table"][1:])
    if not fits:
        received = ", ".join(f"{name}.shape={shape}" for name, shape in shapes.items())
        raise ValueError(
            "Features (N, d), a table (V, d), labels (N,) and weights (N,) must have one N and one "
            f"d, for nothing is broadcast. Received: {received}"
        )


def _with_gradient(s: float, c: float):
    @tf.custom_gradient
    def compute(features, table, labels, weights):
        label_rows = tf.gather(table, labels)  # (N, d)
        mean_row = tf.reduce_mean(table, axis=0)  # (d,)
        exponentials, totals, log_totals, surprise = _softmax_parts(
            features, table, label_rows, labels, weights
        )  # (N, V), (N,), (N,), (N,)
        contrast = label_rows - mean_row  # (N, d), z_y - mean(z) = features . contrast
        smoothing = tf.reduce_sum(features * contrast, axis=1)  # (N,)
        losses = surprise + s * smoothing
        if c:
            losses += c * tf.square(log_totals)
        total = tf.tensordot(weights, losses, 1)

        def gradient(upstream):
            scale = weights[:, None]  # (N, 1)
            weighted = features * scale  # (N, d)
            expected_rows = tf.matmul(exponentials, table) / totals[:, None]  # (N, d)
            shares = weighted / totals[:, None]
            if c:
                pull = 1.0 + 2.0 * c * log_totals[:, None]  # (N, 1)
                expected_rows, shares = pull * expected_rows, pull * shares
            d_features = scale * (expected_rows - label_rows + s * contrast)
            # A fifth faster than e^T (features / t), whose large factor would be the turned one.
            turned = tf.matmul(shares, exponentials, transpose_a=True)  # (d, V)
            d_table = tf.transpose(turned)
            size = tf.shape(table)[0]
            d_table -= (1 - s) * tf.math.unsorted_segment_sum(weighted, labels, size)
            if s:
                d_table -= s * tf.reduce_sum(weighted, axis=0) / tf.cast(size, tf.float32)
            return upstream * d_features, upstream * d_table, None, None

        return total, gradient

    return compute


def _softmax_parts(features, table, label_rows, labels, weights):
    """Exponentials and sums whose quotient is the softmax, lse(z), and -log of the label's share.

    Returns:
        `exp(z - r)` (N, V), its sums (N,), `lse(z)` (N,) and `lse(z) - z_y` (N,); r is 0 or the
        largest z.
    """

    def plain():
        at_label = tf.reduce_sum(features * label_rows, axis=1)
        log_totals = tf.math.log(totals)
        return exponentials, totals, log_totals, log_totals - at_label

    def shifted():
        logits = tf.matmul(features, table, transpose_b=True)
        largest = tf.reduce_max(logits, axis=1, keepdims=True)  # (N, 1)
        logits -= largest
        exponentials = tf.exp(logits)
        totals = tf.reduce_sum(exponentials, axis=1)
        log_totals = tf.math.log(totals)
        at_label = tf.gather(logits, labels, batch_dims=1)
        return exponentials, totals, log_totals + largest[:, 0], log_totals - at_label

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
