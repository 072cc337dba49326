"""Reading a patch of an image, and writing one, through Gaussian filterbanks."""

import keras
import tensorflow as tf
from keras import ops

from keras_attn.checks import require_size
from keras_attn.ops.filterbank import filterbanks
from keras_attn.saved import registered


@registered
class FilterbankRead(keras.layers.Layer):
    """A patch of N by N windows on an image.

    `read(x) = intensity F_Y x F_X^T` (equation 27), with the filterbanks of `ops.filterbanks`: five
    numbers an example, all 0 for a grid that spans the image with windows of deviation 1.

    Args:
        grid: Positive integer N.

    Call arguments:
        images: (B, H, W) or (B, H, W, C).
        parameters: (B, 5): x, y, log variance, log stride, log intensity.

    Returns:
        (B, N, N) or (B, N, N, C).

    Raises:
        ValueError: `grid` is not a positive integer, or inputs have other shapes.

    Example:

    >>> import keras
    >>> from keras_attn.layers import FilterbankRead
    >>> tuple(FilterbankRead(5)(keras.ops.ones((2, 28, 28)), keras.ops.zeros((2, 5))).shape)
    (2, 5, 5)

    Reference:
        Gregor et al. 2015, "DRAW: a recurrent neural network for image generation", section 3.2,
        https://arxiv.org/abs/1502.04623
    """

    def __init__(self, grid: int, **kwargs):
        super().__init__(**kwargs)
        self.grid = require_size("grid", grid)

    def build(self, images_shape, parameters_shape=None):
        _require_shapes("images", images_shape, parameters_shape)
        _require_known_size(images_shape)

    def call(self, images, parameters):
        images = ops.cast(images, self.compute_dtype)
        height, width = images.shape[1:3]
        rows, columns, _, intensity = filterbanks(parameters, self.grid, height, width)
        return _product(rows, images, columns, intensity)

    def compute_output_shape(self, images_shape, parameters_shape=None):
        _require_shapes("images", images_shape, parameters_shape)
        return (images_shape[0], self.grid, self.grid, *images_shape[3:])

    def get_config(self):
        return {**super().get_config(), "grid": self.grid}


@registered
class FilterbankWrite(keras.layers.Layer):
    """An image on which a patch of N by N windows is written.

    `write(w) = stride^2 / intensity F_Y^T w F_X`. The paper's equation 29 leaves `stride^2` to the
    learned intensity; with it, what was read from an image and is written with the same five
    numbers is that image again, as far as it is smooth at the distance of two windows.

    Args:
        height: Positive integer H.
        width: Positive integer W.

    Call arguments:
        patches: (B, N, N) or (B, N, N, C).
        parameters: (B, 5): x, y, log variance, log stride, log intensity.

    Returns:
        (B, H, W) or (B, H, W, C).

    Raises:
        ValueError: a size is not a positive integer, or inputs have other shapes.

    Example:

    >>> import keras
    >>> from keras_attn.layers import FilterbankWrite
    >>> tuple(FilterbankWrite(28, 28)(keras.ops.ones((2, 5, 5)), keras.ops.zeros((2, 5))).shape)
    (2, 28, 28)

    Reference:
        Gregor et al. 2015, "DRAW: a recurrent neural network for image generation", section 3.2,
        https://arxiv.org/abs/1502.04623
    """

    def __init__(self, height: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.height = require_size("height", height)
        self.width = require_size("width", width)

    def build(self, patches_shape, parameters_shape=None):
        _require_shapes("patches", patches_shape, parameters_shape)
        _require_known_size(patches_shape)
        if patches_shape[1] != patches_shape[2]:
            raise ValueError(
                "A patch has as many rows as columns. "
                f"Received: patches.shape={tuple(patches_shape)}"
            )

    def call(self, patches, parameters):
        patches = ops.cast(patches, self.compute_dtype)
        grid = patches.shape[1]
        rows, columns, stride, intensity = filterbanks(parameters, grid, self.height, self.width)
        rows, columns = (tf.transpose(bank, [0, 2, 1]) for bank in (rows, columns))
        return _product(rows, patches, columns, stride**2 / intensity)

    def compute_output_shape(self, patches_shape, parameters_shape=None):
        _require_shapes("patches", patches_shape, parameters_shape)
        return (patches_shape[0], self.height, self.width, *patches_shape[3:])

    def get_config(self):
        return {**super().get_config(), "height": self.height, "width": self.width}


def _product(rows, images, columns, factor):
    """`factor rows images columns^T` for every channel."""
    rows = tf.cast(rows * factor[:, None, None], images.dtype)
    equation = "bih,bhw...,bjw->bij..."
    return tf.einsum(equation, rows, images, tf.cast(columns, images.dtype))


def _require_shapes(name: str, shape, parameters_shape):
    if len(shape) not in (3, 4):
        raise ValueError(
            f"The {name} have the shape (B, height, width) or (B, height, width, channels). "
            f"Received: {name}.shape={tuple(shape)}"
        )
    if parameters_shape is not None and tuple(parameters_shape)[1:] != (5,):
        raise ValueError(
            "A patch has five numbers: x, y, log variance, log stride, log intensity. "
            f"Received: parameters.shape={tuple(parameters_shape)}"
        )


def _require_known_size(shape):
    if None in tuple(shape)[1:3]:
        raise ValueError(
            "The height and the width must be known when the layer is built, because the "
            f"filterbanks are reckoned from them. Received: shape={tuple(shape)}"
        )
