"""Draws from a distribution over a few things, made of one uniform number each."""

from keras import ops


def drawn_index(weights, quantile):
    """The first index up to which the weights add up to a quantile of their sum.

    With a quantile that is uniform in [0, 1) index i is drawn with probability `w_i / sum_j w_j`.
    It is an integer: no gradient flows through it.

    Args:
        weights: (B, n), not negative.
        quantile: (B,), in [0, 1).

    Returns:
        (B,), int32.

    Example:
        >>> from keras_attn.ops.drawing import drawn_index
        >>> drawn_index([[1.0, 2.0, 1.0]] * 3, [0.2, 0.3, 0.8]).numpy().tolist()
        [0, 1, 2]
    """
    running = ops.cumsum(ops.stop_gradient(ops.cast(weights, "float32")), axis=-1)  # (B, n)
    # Compared to their own sum, which rounding keeps from being 1, no index lies beyond the last.
    below = running <= ops.expand_dims(quantile, -1) * running[:, -1:]
    last = ops.shape(running)[-1] - 1
    return ops.minimum(ops.sum(ops.cast(below, "int32"), axis=-1), last)
