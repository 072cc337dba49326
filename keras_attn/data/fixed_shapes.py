"""Batches in few shapes, for devices that compile each shape they see."""

from collections.abc import Mapping

import tensorflow as tf

from keras_attn.data.seekable import SeekableBatches
from keras_attn.text import END, PADDING


def with_fixed_shapes(
    batches: tf.data.Dataset, rows_of_length: Mapping[int, int]
) -> tf.data.Dataset:
    """Pad batches of a sequence model to one of a few shapes.

    Both sides of a batch get the smallest length that holds them, and the batch the number of rows
    that goes with it. What is added is padding and masked, and rows without a label: it changes no
    sum, count or gradient. An added row has a source of the end token alone.

    Args:
        batches: of `(inputs, labels, mask)`, see `sequence_pairs.model_batch`.
        rows_of_length: by length, how many rows a batch of that length has.

    Returns:
        A dataset in which source, target, labels and mask are (rows, length); it begins at any step
        if `batches` do.

    Raises:
        tf.errors.InvalidArgumentError: when it comes to a batch that no shape holds.

    Example:
        >>> batches = with_fixed_shapes(batches, {16: 64, 32: 64})
    """
    lengths = tf.constant(sorted(rows_of_length))
    rows = tf.constant([rows_of_length[length] for length in sorted(rows_of_length)])

    def padded(inputs, labels, mask):
        longest = tf.maximum(tf.shape(inputs["source"])[1], tf.shape(labels)[1])
        number = tf.searchsorted(lengths, longest[None])[0]
        message = f"a batch must fit one of the shapes {dict(rows_of_length)}"
        with tf.control_dependencies([tf.debugging.assert_less(number, len(lengths), message)]):
            number = tf.minimum(number, len(lengths) - 1)
        shape = tf.stack([rows[number], lengths[number]])
        added = shape[0] - tf.shape(labels)[0]
        source = _padded(inputs["source"], shape, PADDING)
        first = tf.where(tf.range(shape[0]) < shape[0] - added, source[:, 0], END)
        inputs = {
            "source": tf.concat([first[:, None], source[:, 1:]], axis=1),
            "source_lengths": tf.pad(inputs["source_lengths"], [[0, added]], constant_values=1),
            "target": _padded(inputs["target"], shape, PADDING),
        }
        return inputs, _padded(labels, shape, PADDING), _padded(mask, shape, False)

    seekable = isinstance(batches, SeekableBatches)
    return batches.mapped(padded) if seekable else batches.map(padded)


def _padded(x, shape, value):
    missing = tf.maximum(shape - tf.shape(x), 0)
    paddings = tf.stack([tf.zeros_like(missing), missing], axis=1)
    # A batch of more rows than its shape has is an error here, not a batch cut short.
    return tf.ensure_shape(
        tf.reshape(tf.pad(x, paddings, constant_values=value), shape), [None, None]
    )
