"""Pictures in files, PNG or JPEG, as images for a network."""

import os

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.paths import path_of


def decoded(contents: tf.Tensor, image_shape: tuple[int, int, int]) -> tf.Tensor:
    """The pictures that encoded bytes are of, in a graph too.

    A picture is decoded (PNG, JPEG or BMP), turned grey if there is one channel, and resized to the
    wanted height and width whatever its own: all of it can be seen, squeezed if need be.

    Args:
        contents: (B,) strings.
        image_shape: (height, width, channels); 1 or 3 channels.

    Returns:
        (B, height, width, channels), float32 in [0, 1].

    Raises:
        ValueError: channels that no picture has. The graph, `InvalidArgumentError` for bytes that
            are no such picture.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.data.pictures import decoded
        >>> png = tf.io.encode_png(tf.fill([3, 5, 1], tf.constant(255, tf.uint8)))
        >>> images = decoded(png[None], (2, 2, 1))
        >>> tuple(images.shape), float(tf.reduce_min(images))
        ((1, 2, 2, 1), 1.0)
    """
    height, width, channels = image_shape
    if channels not in (1, 3):
        raise ValueError(
            "A picture in a file is grey or has three colours: build the model for 1 or 3 channels,"
            f" or give it images as numbers. Received: image_shape={tuple(image_shape)}"
        )

    def one(content):
        picture = tf.io.decode_image(content, channels=channels, expand_animations=False)
        resized = tf.image.resize(picture, (height, width), antialias=True)  # float32
        return tf.clip_by_value(tf.ensure_shape(resized, image_shape) / 255.0, 0.0, 1.0)

    return tf.map_fn(one, contents, fn_output_signature=tf.TensorSpec(image_shape, tf.float32))


def read_picture(path: str | os.PathLike, image_shape: tuple[int, int, int]) -> np.ndarray:
    """A picture in a file as `decoded` has it: (height, width, channels).

    Raises:
        UserError: if the file is not there or holds no picture; the sentence names it.
    """
    path = path_of(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"The picture {path} cannot be read: {error.strerror}.") from error
    try:
        return decoded(tf.constant([content]), image_shape)[0].numpy()
    except tf.errors.InvalidArgumentError as error:
        raise UserError(
            f"The picture {path} is broken or no picture: give PNG or JPEG files."
        ) from error
