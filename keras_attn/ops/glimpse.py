"""Square patches of images around a location, sharp in the middle and coarse around it."""

import tensorflow as tf

from keras_attn.ops.shapes import sizes


def glimpses(images, locations, size: int, scales: int = 1):
    """Patches around a location, each scale covering twice the width of the one before.

    With `x` in [-1, 1], where -1 and 1 are the outer edges of the first and the last pixel of a
    row of W, the middle of a patch lies at `(x + 1) W / 2` pixels from the left edge. Scale k = 1,
    2, ... covers `size 2^(k-1)` pixels, sampled one pixel apart and averaged in squares of
    `2^(k-1)`. Between two pixels the image is interpolated linearly along both axes, and it is 0
    beyond its border. A location beyond the border is allowed.

    Sampling along an axis is a product with a matrix (size, W) of two or more weights a row, so
    that the gradient with respect to images and locations is that of matrix products.

    Args:
        images: (B, H, W, C), floats.
        locations: (B, 2): x, from left to right, and y, from top to bottom.
        size: pixels along each side of what is returned.
        scales: how many there are.

    Returns:
        (B, scales, size, size, C), the finest scale first.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.ops import glimpses
        >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
        >>> glimpses(image, [[0.0, 0.0]], size=2)[0, 0, :, :, 0].numpy().tolist()
        [[5.0, 6.0], [9.0, 10.0]]

    Reference:
        Mnih, Heess, Graves, Kavukcuoglu 2014, "Recurrent models of visual attention",
        https://arxiv.org/abs/1406.6247
    """
    images = tf.convert_to_tensor(images)
    _, height, width, _ = sizes(images)
    locations = tf.cast(locations, tf.float32)
    patches = []
    for scale in range(scales):
        columns = _window(locations[:, 0], size, 2**scale, width)  # (B, size, W)
        rows = _window(locations[:, 1], size, 2**scale, height)  # (B, size, H)
        patches.append(_read(images, rows, columns))
    return tf.stack(patches, axis=1)  # (B, scales, size, size, C)


def _window(location, size: int, pixels: int, extent):
    """What each of `size` cells of a patch takes of the pixels along an axis: (B, size, extent).

    A cell is the mean of `pixels` samples one pixel apart.
    """
    samples = size * pixels
    middle = (location + 1.0) / 2.0 * tf.cast(extent, tf.float32) - 0.5  # 0: middle of a pixel
    offsets = tf.range(samples, dtype=tf.float32) - (samples - 1) / 2.0
    places = middle[:, None] + offsets  # (B, samples)
    distances = tf.abs(places[:, :, None] - tf.range(tf.cast(extent, tf.float32)))
    weights = tf.maximum(0.0, 1.0 - distances)  # (B, samples, extent)
    grouped = tf.reshape(weights, [tf.shape(weights)[0], size, pixels, extent])
    return tf.reduce_mean(grouped, axis=2)


def _read(images, rows, columns):
    """`rows images columns^T` for every channel: (B, size, size, C)."""
    rows, columns = (tf.cast(weights, images.dtype) for weights in (rows, columns))
    return tf.einsum("bih,bhwc,bjw->bijc", rows, images, columns)
