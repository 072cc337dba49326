"""The retina of a model that looks at images by glimpses."""

import keras
import tensorflow as tf
from keras import ops

from keras_attn.checks import require_size
from keras_attn.ops.glimpse import glimpses
from keras_attn.saved import registered


@registered
class GlimpseSensor(keras.layers.Layer):
    """Square patches of an image around a location, each scale twice as wide as the one before.

    The middle of the patches lies at `(x + 1) W / 2` pixels from the left edge of an image of width
    W, and as far from the top as y says: -1 and 1 are the outer edges of the first and last pixel.
    Scale k covers `size 2^(k-1)` pixels, averaged down to `size`. Between pixels the image is
    interpolated linearly, and it is 0 beyond its border. See `keras_attn.ops.glimpses`.

    Args:
        size: Positive integer, the pixels along a side of each patch.
        scales: Positive integer, how many patches there are. Defaults to `1`.

    Call arguments:
        images: (B, H, W, C) or (B, H, W).
        locations: (B, 2): x from left to right, y from top to bottom, in [-1, 1].

    Returns:
        (B, scales, size, size, C), the finest scale first; without C where the images have none.

    Raises:
        ValueError: `size` or `scales` is not a positive integer, or inputs have other shapes.

    Example:

    >>> import keras
    >>> from keras_attn.layers import GlimpseSensor
    >>> images, locations = keras.ops.ones((2, 28, 28, 1)), keras.ops.zeros((2, 2))
    >>> tuple(GlimpseSensor(8, scales=3)(images, locations).shape)
    (2, 3, 8, 8, 1)

    Reference:
        Mnih et al. 2014, "Recurrent models of visual attention", https://arxiv.org/abs/1406.6247
    """

    def __init__(self, size: int, scales: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.size = require_size("size", size)
        self.scales = require_size("scales", scales)

    def build(self, images_shape, locations_shape=None):
        _require_images(images_shape)
        if locations_shape is not None and tuple(locations_shape)[1:] != (2,):
            raise ValueError(
                "Locations are pairs (B, 2) of x and y. "
                f"Received: locations.shape={tuple(locations_shape)}"
            )

    def call(self, images, locations):
        images = ops.cast(images, self.compute_dtype)
        patches = glimpses(_with_channels(images), locations, self.size, self.scales)
        return patches if len(images.shape) == 4 else tf.squeeze(patches, -1)

    def compute_output_shape(self, images_shape, locations_shape=None):
        _require_images(images_shape)
        return (images_shape[0], self.scales, self.size, self.size, *images_shape[3:])

    def get_config(self):
        return {**super().get_config(), "size": self.size, "scales": self.scales}


def _with_channels(images):
    return images if len(images.shape) == 4 else images[..., None]


def _require_images(shape):
    if len(shape) not in (3, 4):
        raise ValueError(
            "Images have the shape (B, height, width) or (B, height, width, channels). "
            f"Received: images.shape={tuple(shape)}"
        )
