"""Two handwritten digits on a canvas, and a caption that names them and how they lie."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attn.data.digits import SIDE
from keras_attn.data.seekable import SeekableBatches, seekable_batches

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RELATIONS = ("above", "left of")
WORDS = (*DIGITS, "above", "left", "of")
"""All words of the captions."""

LEAST_SIZE = 2 * SIDE
_MARGIN = 6  # pixels by which two digits may overlap: their images have that much black around


class DigitScenes(NamedTuple):
    """Canvases and what there is to say of them.

    Attributes:
        images: (B, size, size, 1), float32 in [0, 1].
        captions: (B,), strings such as `three above seven`.
        corners: (B, 2, 2), int32: row and column of the upper left pixel of the digit that is named
            first, and of the other; each is 28 pixels high and wide.
    """

    images: tf.Tensor
    captions: tf.Tensor
    corners: tf.Tensor


def digit_scenes(images, labels, number: int, seed: int, size: int = LEAST_SIZE) -> DigitScenes:
    """So many scenes, a function of the digits, the seed and the size.

    The upper digit is named first or, side by side, the left one: every canvas has one caption, and
    which digits there are does not tell which comes first.

    Args:
        images: (N, 28, 28), uint8.
        labels: (N,), 0 to 9.
        number: of scenes.
        seed: of what lies where.
        size: pixels along a side of a canvas, 56 at least.

    Raises:
        ValueError: if two digits do not fit on the canvas.

    Example:
        >>> import numpy as np
        >>> from keras_attn.data.digit_captions import digit_scenes
        >>> scenes = digit_scenes(np.ones((9, 28, 28), np.uint8), [7] * 9, number=2, seed=4)
        >>> scenes.captions.numpy().tolist(), tuple(scenes.images.shape)
        ([b'seven above seven', b'seven above seven'], (2, 56, 56, 1))
    """
    seeds = tf.random.split(tf.constant([seed, 0], tf.int64), 2)
    rows = tf.random.stateless_uniform([number, 2], seeds[0], 0, len(images), tf.int32)
    return _scenes(tf.constant(images), tf.constant(labels, tf.int32), rows, seeds[1], size)


def digit_scene_batches(
    images, labels, batch_size: int, seed: int, size: int = LEAST_SIZE
) -> SeekableBatches:
    """Endless batches of `DigitScenes`, every scene new.

    Args:
        images, labels, size: see `digit_scenes`.
        batch_size: B.
        seed: of everything that is drawn.

    Raises:
        ValueError: if two digits do not fit on the canvas.
    """
    _require_canvas(size)
    images, labels = tf.constant(images), tf.constant(labels, tf.int32)

    def batch(step):
        seeds = tf.random.split(tf.stack([tf.cast(seed, tf.int64), step + 1]), 2)
        rows = tf.random.stateless_uniform([batch_size, 2], seeds[0], 0, images.shape[0], tf.int32)
        return _scenes(images, labels, rows, seeds[1], size)

    numbers = {"digits": len(images), "batch_size": batch_size, "seed": seed, "size": size}
    return seekable_batches(batch, identity=numbers)


def mass_on_digits(attention, corners, size: int) -> np.ndarray:
    """How much of the attention lies on each of the two digits: (B, T, 2).

    A place of the grid stands for its rectangle of the canvas, over which its weight is spread
    evenly; a digit for its 28 by 28 pixels. Even attention has the share of a digit on the canvas,
    0.25 of 56 by 56 pixels.

    Args:
        attention: (B, T, h, w), weights over a grid.
        corners: (B, 2, 2), see `DigitScenes`.
        size: pixels along a side of the canvas.
    """
    attention, corners = np.asarray(attention, np.float64), np.asarray(corners)
    rows, columns = (
        _covered(corners[..., axis], attention.shape[2 + axis], size) for axis in (0, 1)
    )
    return np.einsum("bthw,bdh,bdw->btd", attention, rows, columns)


def _covered(starts, cells: int, size: int) -> np.ndarray:
    """The share of each cell along an axis that a digit covers: (B, 2) -> (B, 2, cells)."""
    edges = np.linspace(0, size, cells + 1)
    first, last = starts[..., None], starts[..., None] + SIDE
    overlap = np.minimum(last, edges[1:]) - np.maximum(first, edges[:-1])
    return np.clip(overlap, 0, None) * cells / size


def _scenes(images, labels, rows, seed, size: int) -> DigitScenes:
    """Scenes of the digits of `rows` (B, 2), the order of which is that in which they are named."""
    _require_canvas(size)
    relation, corners = _places(tf.shape(rows)[0], seed, size)
    names = tf.gather(tf.constant(DIGITS), tf.gather(labels, rows))  # (B, 2)
    first, second = tf.unstack(names, axis=1)
    middle = tf.gather(tf.constant(RELATIONS), relation)
    captions = tf.strings.join([first, middle, second], separator=" ")
    return DigitScenes(_drawn(tf.gather(images, rows), corners, size), captions, corners)


def _places(batch, seed, size: int):
    """Which relation (B,) holds, and the corners (B, 2, 2) of two digits for which it does.

    Along the axis of the relation the digits lie at least 22 pixels apart, along the other at most
    half of that: nothing lies both above and left of something.
    """
    seeds = tf.random.split(seed, 4)
    room = size - SIDE  # what a corner can be at most
    relation = tf.random.stateless_uniform([batch], seeds[0], 0, len(RELATIONS), tf.int32)
    least = SIDE - _MARGIN
    apart = tf.random.stateless_uniform([batch], seeds[1], least, room + 1, tf.int32)
    aside = tf.random.stateless_uniform([batch], seeds[2], -least // 2, least // 2 + 1, tf.int32)
    where = tf.random.stateless_uniform([batch, 2], seeds[3])
    # The middle of the two lies anywhere that leaves both on the canvas.
    along = tf.stack([tf.zeros_like(apart), apart], axis=1)  # (B, 2), of the two digits
    across = tf.stack([tf.maximum(-aside, 0), tf.maximum(aside, 0)], axis=1)
    along, across = (
        offset + _shift(where[:, number], room - tf.reduce_max(offset, axis=1))[:, None]
        for number, offset in enumerate((along, across))
    )
    is_upright = (relation == 0)[:, None]
    corners = [tf.where(is_upright, along, across), tf.where(is_upright, across, along)]
    return relation, tf.stack(corners, axis=-1)  # row and column


def _shift(uniform, room):
    """A whole number from 0 to `room`: (B,)."""
    return tf.minimum(tf.cast(uniform * tf.cast(room + 1, tf.float32), tf.int32), room)


def _drawn(digits, corners, size: int):
    """The digits (B, 2, 28, 28) at their corners, the brighter seen where both are."""
    digits = tf.cast(digits, tf.float32) / 255.0
    span = tf.range(SIDE)
    rows, columns = (
        tf.one_hot(corners[..., axis, None] + span, size) for axis in (0, 1)
    )  # (B, 2, 28, size)
    placed = tf.einsum("bdhy,bdhw,bdwx->bdyx", rows, digits, columns)
    return tf.reduce_max(placed, axis=1)[..., None]


def _require_canvas(size: int) -> None:
    if size < LEAST_SIZE:
        raise ValueError(f"Two digits need a canvas of {LEAST_SIZE} pixels. Received: size={size}")
