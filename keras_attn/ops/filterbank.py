"""Gaussian filterbanks, with which a patch of an image is read and written."""

import tensorflow as tf

from keras_attn.ops.precision import at_least_float32, wide_dtype


def gaussian_filterbank(center, stride, variance, grid: int, size: int):
    """Gaussian windows at equal distances along an axis of an image.

    `F[i, a] = exp(-(a - mu_i)^2 / (2 variance)) / Z_i`, with `mu_i = center + (i - grid / 2 - 0.5)
    stride` for i = 1, ..., grid, the pixels a = 0, ..., size - 1, and Z_i such that a row has the
    sum 1, wherever its middle lies (equations 19, 20 and 25, 26).

    Args:
        center: (B,), the middle of the windows in pixels.
        stride: (B,), pixels between two windows.
        variance: (B,), of a window, in square pixels.
        grid: N, how many windows there are.
        size: A, the pixels of the axis.

    Returns:
        (B, grid, size), float32, or float64 if the center is.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.ops import gaussian_filterbank
        >>> bank = gaussian_filterbank([3.0], [2.0], [0.01], grid=3, size=7)
        >>> tf.argmax(bank[0], axis=-1).numpy().tolist()
        [1, 3, 5]

    Reference:
        Gregor, Danihelka, Graves, Rezende, Wierstra 2015, "DRAW: a recurrent neural network for
        image generation", section 3.2, https://arxiv.org/abs/1502.04623
    """
    center = tf.convert_to_tensor(center)
    dtype = wide_dtype(center.dtype)
    center, stride, variance = (tf.cast(value, dtype) for value in (center, stride, variance))
    steps = tf.range(1, grid + 1, dtype=dtype) - (grid / 2 + 0.5)
    middles = center[:, None] + steps * stride[:, None]  # (B, N)
    distances = tf.range(size, dtype=dtype) - middles[:, :, None]  # (B, N, A)
    # The largest of a row is taken out before the exponential, so that none underflows to 0 / 0.
    return tf.nn.softmax(-(distances**2) / (2.0 * variance[:, None, None]), axis=-1)


def filterbanks(parameters, grid: int, height: int, width: int):
    """The filterbanks of both axes, their stride and intensity, from the five numbers of a patch.

    `g_X = (A + 1) / 2 (x + 1) - 1`, `g_Y = (B + 1) / 2 (y + 1) - 1` and
    `stride = (max(A, B) - 1) / (N - 1) exp(log_stride)` (equations 22 to 24, with A the width and B
    the height; the paper counts pixels from 1, here they begin at 0). Numbers of 0 place the grid
    on the whole image. With a grid of one window the stride has no meaning.

    Args:
        parameters: (B, 5): x, y, log variance, log stride, log intensity.
        grid: N.
        height, width: of the image.

    Returns:
        F_Y (B, N, H), F_X (B, N, W), stride (B,), intensity (B,).

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.ops import filterbanks
        >>> rows, columns, stride, intensity = filterbanks(tf.zeros([2, 5]), 5, height=9, width=7)
        >>> tuple(rows.shape), tuple(columns.shape), float(stride[0])
        ((2, 5, 9), (2, 5, 7), 2.0)
    """
    parameters = at_least_float32(tf.convert_to_tensor(parameters))
    x, y, log_variance, log_stride, log_intensity = tf.unstack(parameters, axis=-1)
    stride = (max(height, width) - 1) / max(grid - 1, 1) * tf.exp(log_stride)
    variance = tf.exp(log_variance)
    x, y = (width + 1) / 2 * (x + 1) - 1, (height + 1) / 2 * (y + 1) - 1
    columns = gaussian_filterbank(x, stride, variance, grid, width)
    rows = gaussian_filterbank(y, stride, variance, grid, height)
    return rows, columns, stride, tf.exp(log_intensity)
