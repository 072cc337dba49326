"""Images as annotations: what a network says of each place of a grid, in a row."""

import keras
import tensorflow as tf

from keras_attn.layers import PositionEmbedding


class Annotations(keras.layers.Layer):
    """The places of a grid of features, row by row.

    Args:
        encoder: a network from images to a grid (B, h, w, D).
        image_shape: (height, width, channels).

    Attributes:
        grid: (h, w).
        features: D.

    Call arguments:
        images: (B, height, width, channels).

    Returns:
        (B, h * w, D); of no images none, which the convolutions of TensorFlow refuse on a CPU.

    Raises:
        ValueError: if the network makes no grid.
    """

    def __init__(self, encoder: keras.Model, image_shape: tuple[int, ...], **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.encoder = encoder
        self.grid, self.features = _grid_of(encoder, image_shape)
        self.built = True

    def call(self, images, training=None):
        rows = tf.shape(images)[0] if images.shape[0] is None else images.shape[0]
        missing = tf.cast(tf.equal(rows, 0), tf.int32)
        if images.shape[0] in (None, 0):
            images = tf.pad(images, [[0, missing], [0, 0], [0, 0], [0, 0]])
        grid = self.encoder(images, training=training)[:rows]  # (B, h, w, D)
        return tf.reshape(grid, [rows, self.grid[0] * self.grid[1], self.features])

    def compute_output_spec(self, images, training=None):
        dtype = self.encoder.compute_output_spec(images).dtype
        return keras.KerasTensor(
            (images.shape[0], self.grid[0] * self.grid[1], self.features), dtype
        )


def convolutions(image_shape: tuple[int, ...], filters: tuple[int, ...], dtype) -> keras.Model:
    """A convolution and a halving for each number of filters, and where each place is."""
    images = keras.Input(tuple(image_shape), dtype="float32")
    grid = images
    for number, width in enumerate(filters):
        grid = keras.layers.Conv2D(
            width, 3, padding="same", activation="relu", dtype=dtype, name=f"convolution_{number}"
        )(grid)
        grid = keras.layers.MaxPooling2D(dtype=dtype, name=f"maximum_{number}")(grid)
    height, width, features = grid.shape[1:]
    rows = keras.layers.Reshape((height * width, features), dtype=dtype, name="places")(grid)
    where = PositionEmbedding(height * width, dtype=dtype, name="where")(rows)
    placed = keras.layers.Add(dtype=dtype, name="placed")([rows, where])
    grid = keras.layers.Reshape((height, width, features), dtype=dtype, name="grid")(placed)
    return keras.Model(images, grid, name="encoder")


def _grid_of(encoder, image_shape) -> tuple[tuple[int, int], int]:
    """The height and width of what a network makes of images, and its features."""
    images = keras.KerasTensor((None, *image_shape), "float32")
    grid = encoder.compute_output_spec(images)
    shape = tuple(getattr(grid, "shape", ()))
    if len(shape) != 4 or None in shape[1:]:
        given = shape or f"a {type(grid).__name__}"
        raise ValueError(
            "The encoder makes a grid of features of an image, (batch, height, width, features), "
            "as a network of keras.applications does with include_top=False and without pooling. "
            f"Received: encoder={encoder.name!r}, whose output is {given} for images of "
            f"{(None, *image_shape)}"
        )
    return (shape[1], shape[2]), shape[3]
