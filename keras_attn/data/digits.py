"""Handwritten digits (MNIST), as they are, moved about a larger canvas, and among clutter."""

import numpy as np
import tensorflow as tf

from keras_attn.data.locations import corpus_file
from keras_attn.data.seekable import SeekableBatches, seekable_batches

SIDE = 28
SPLITS = ("train", "test")
_CLUTTER_SIDE = 8
_HOW_TO_GET = (
    "nothing is downloaded: keras.datasets.mnist.load_data() puts the file where Keras looks, or "
    "put mnist.npz there"
)


def mnist(split: str) -> tuple[np.ndarray, np.ndarray]:
    """The digits of a split: images (N, 28, 28) and labels (N,), both uint8.

    They lie in `mnist.npz` below KERAS_ATTN_DATA, or in Keras' cache.

    Args:
        split: `train` (60,000 digits) or `test` (10,000).

    Raises:
        ValueError: if there is no such split.
        UserError: if the file is not there; it says where it was looked for.

    Reference:
        LeCun, Bottou, Bengio, Haffner 1998, "Gradient-based learning applied to document
        recognition"
    """
    if split not in SPLITS:
        raise ValueError(f"MNIST has {', '.join(SPLITS)}. Received: split={split!r}")
    with corpus_file("mnist.npz", _HOW_TO_GET).open("rb") as file, np.load(file) as content:
        return content[f"x_{split}"], content[f"y_{split}"]


def digit_batches(images, labels, batch_size: int, seed: int) -> SeekableBatches:
    """Endless batches of digits, every digit once in each pass, in a new order each time.

    Args:
        images: (N, H, W), uint8, of which a batch has numbers in [0, 1].
        labels: (N,).
        batch_size: B; of a pass the digits that fill no batch are left out.
        seed: of the order.

    Returns:
        A dataset of `(images (B, H, W) float32, labels (B,) int32)` that begins at any step.
    """
    return _batches(images, labels, batch_size, seed, lambda images, seeds: images, {})


def translated_digit_batches(
    images, labels, batch_size: int, seed: int, size: int = 60
) -> SeekableBatches:
    """`digit_batches` of which each digit lies somewhere on a canvas, uniformly, anew each pass.

    Args:
        images, labels, batch_size, seed: see `digit_batches`.
        size: pixels along a side of the canvas, 28 at least.

    Raises:
        ValueError: if a digit does not fit on the canvas.
    """
    _require_canvas(size)
    return _batches(
        images, labels, batch_size, seed, lambda x, seeds: _placed(x, seeds[0], size),
        {"size": size},
    )  # fmt: skip


def cluttered_digit_batches(
    images, labels, batch_size: int, seed: int, size: int = 60, pieces: int = 4
) -> SeekableBatches:
    """`translated_digit_batches` among pieces of 8 by 8 pixels of other digits.

    Where something lies on something else the brighter of the two is seen.

    Args:
        images, labels, batch_size, seed: see `digit_batches`.
        size: pixels along a side of the canvas, 28 at least.
        pieces: how many are strewn over each canvas.

    Raises:
        ValueError: if a digit does not fit on the canvas.

    Reference:
        Mnih et al. 2014, "Recurrent models of visual attention", section 4.1.
    """
    _require_canvas(size)
    strewn_from = tf.constant(images)

    def cluttered(digits, seeds):
        canvas = _placed(digits, seeds[0], size)
        for piece in range(pieces):
            cut = _pieces(strewn_from, tf.shape(digits)[0], tf.random.fold_in(seeds[1], piece))
            placed = _placed(cut, tf.random.fold_in(seeds[2], piece), size)
            canvas = tf.maximum(canvas, placed)
        return canvas

    identity = {"size": size, "pieces": pieces}
    return _batches(images, labels, batch_size, seed, cluttered, identity)


def _batches(images, labels, batch_size, seed, changed, identity) -> SeekableBatches:
    number = len(images)
    if not 1 <= batch_size <= number:
        raise ValueError(
            f"A batch has one digit at least and {number} at most. Received: "
            f"batch_size={batch_size}"
        )
    images, labels = tf.constant(images), tf.constant(labels, tf.int32)
    steps = number // batch_size  # of a pass

    def batch(step):
        places = step % steps * batch_size + tf.range(batch_size, dtype=tf.int64)
        order = tf.stack([tf.cast(seed, tf.int64), step // steps])
        rows = tf.random.experimental.index_shuffle(places, order, number - 1)
        seeds = tf.random.split(tf.stack([tf.cast(seed, tf.int64), step]), 3)
        digits = tf.cast(tf.gather(images, rows), tf.float32) / 255.0
        return changed(digits, tf.unstack(seeds)), tf.gather(labels, rows)

    numbers = {"digits": number, "batch_size": batch_size, "seed": seed}
    return seekable_batches(batch, identity={**numbers, **identity})


def _placed(patches, seed, size: int):
    """Each patch (B, h, w) at a place of its own on a canvas of zeros (B, size, size)."""
    batch, height, width = tf.shape(patches)[0], patches.shape[1], patches.shape[2]
    seeds = tf.random.split(seed, 2)
    tops = tf.random.stateless_uniform([batch], seeds[0], 0, size - height + 1, tf.int32)
    lefts = tf.random.stateless_uniform([batch], seeds[1], 0, size - width + 1, tf.int32)
    rows = tf.one_hot(tops[:, None] + tf.range(height), size)  # (B, h, size)
    columns = tf.one_hot(lefts[:, None] + tf.range(width), size)
    return tf.einsum("bhy,bhw,bwx->byx", rows, patches, columns)


def _pieces(images, batch, seed):
    """Squares from digits of anywhere: (B, 8, 8)."""
    seeds = tf.random.split(seed, 3)
    whole = tf.random.stateless_uniform([batch], seeds[0], 0, tf.shape(images)[0], tf.int32)
    last = SIDE - _CLUTTER_SIDE + 1
    tops = tf.random.stateless_uniform([batch, 1], seeds[1], 0, last, tf.int32)
    lefts = tf.random.stateless_uniform([batch, 1], seeds[2], 0, last, tf.int32)
    span = tf.range(_CLUTTER_SIDE)
    digits = tf.cast(tf.gather(images, whole), tf.float32) / 255.0
    digits = tf.gather(digits, tops + span, axis=1, batch_dims=1)
    return tf.gather(digits, lefts + span, axis=2, batch_dims=1)


def _require_canvas(size: int) -> None:
    if size < SIDE:
        raise ValueError(f"A digit needs a canvas of {SIDE} pixels. Received: size={size}")
