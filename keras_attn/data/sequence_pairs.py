"""Pairs of token sequences as padded batches of equal length."""

import zlib

import numpy as np
import tensorflow as tf

from keras_attn.data.seekable import SeekableBatches
from keras_attn.text import END, PADDING, START
from keras_attn.training.shares import share


def batches_of_pairs(
    sources: tf.RaggedTensor, targets: tf.RaggedTensor, *, batch_size: int, seed: int
) -> SeekableBatches:
    """Endless shuffled batches for a sequence model; their order depends on the seed alone.

    In every pass the pairs are shuffled, put in the order of their source lengths and cut into
    batches, and the batches are shuffled: sources need next to no padding, and who meets whom and
    when is new each time. The pairs left over, fewer than a batch, are others in every pass.

    Args:
        sources, targets: (N, None) ids without start and end tokens, N at least `batch_size`.
        batch_size: pairs in a batch.
        seed: of the order.

    Returns:
        A dataset that begins at any step, of `(inputs, labels, mask)`: inputs are the dict `source`
        (B, S), `source_lengths` (B,) and `target` (B, T), which begins with the start token; labels
        (B, T) end with the end token; the mask (B, T) is True at real labels. Sources end with the
        end token too.

    Raises:
        ValueError: if there are fewer pairs than a batch holds.
    """
    if sources.nrows() < batch_size:
        raise ValueError(
            f"{int(sources.nrows())} pairs do not fill a batch. Received: batch_size={batch_size}"
        )
    return SeekableBatches(_Passes(ended(sources), ended(targets), batch_size, seed))


class _Passes:
    """Passes over pairs that are in memory; every pass has as many batches."""

    def __init__(
        self, sources: tf.RaggedTensor, targets: tf.RaggedTensor, batch_size: int, seed: int
    ):
        self._sides = sources, targets
        self._lengths = [tf.cast(side.row_lengths(), tf.int32) for side in self._sides]
        self._batch_size = batch_size
        self._seed = seed
        pairs = int(sources.nrows())
        self._batches_in_pass = pairs // batch_size
        self.identity = {
            "pairs": pairs,
            "content": _content(self._sides),
            "batch_size": batch_size,
            "seed": seed,
        }

    def parts(self, step: int, index: int, number: int) -> tf.data.Dataset:
        first, offset = divmod(step, self._batches_in_pass)

        def pass_over_data(pass_number):
            rows = _batches(self._lengths[0], self._batch_size, self._seed, pass_number)
            return tf.data.Dataset.from_tensor_slices(
                rows[tf.where(pass_number == first, offset, 0) :]
            )

        def part(rows):
            mine = share(rows, index, number)
            widths = [tf.reduce_max(tf.gather(lengths, rows)) for lengths in self._lengths]
            batch = model_batch(*(tf.gather(side, mine) for side in self._sides), widths)
            places = tf.range(1, self._batch_size + 1, dtype=tf.int64)
            digest = tf.reduce_sum(tf.cast(rows, tf.int64) * places)
            return batch, tf.constant(self._batch_size, tf.int64), digest

        return tf.data.Dataset.counter(first).flat_map(pass_over_data).map(part)

    def position(self, step: int) -> dict:
        number, offset = divmod(step, self._batches_in_pass)
        return {"pass": number, "offset": offset}

    def remember(self, position) -> None:
        """Nothing: the pass and the place in it follow from the step."""


def model_batch(sources: tf.RaggedTensor, targets: tf.RaggedTensor, widths=None):
    """`(inputs, labels, mask)` of a sequence model from ended sources and targets (B, None).

    Args:
        sources, targets: of the rows.
        widths: the lengths S and T of the batch, if there are longer rows than these in it.
    """
    source_width, width = widths or (None, None)
    labels = _dense(targets, width)  # (B, T)
    starts = tf.fill([tf.shape(labels)[0], 1], tf.constant(START, labels.dtype))
    inputs = {
        "source": _dense(sources, source_width),  # (B, S)
        "source_lengths": tf.cast(sources.row_lengths(), tf.int32),
        "target": tf.concat([starts, labels[:, :-1]], axis=1),
    }
    return inputs, labels, tf.sequence_mask(targets.row_lengths(), tf.shape(labels)[1])


def _dense(sequences: tf.RaggedTensor, width) -> tf.Tensor:
    dense = sequences.to_tensor(PADDING)
    if width is None:
        return dense
    missing = tf.cast(width, tf.int32) - tf.shape(dense)[1]
    return tf.pad(dense, [[0, 0], [0, missing]], constant_values=PADDING)


def _content(sides) -> int:
    """A number that two corpora share only if their ids are the same."""
    digest = 0
    for side in sides:
        for array in (side.flat_values.numpy(), side.row_lengths().numpy()):
            digest = zlib.crc32(np.ascontiguousarray(array), digest)
    return digest


def _batches(lengths: tf.Tensor, batch_size: int, seed: int, number: tf.Tensor) -> tf.Tensor:
    """The rows of every batch of one pass: (batches, batch_size)."""
    seed = tf.stack([tf.constant(seed, tf.int64), number])
    order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(lengths)), seed)
    order = order[tf.size(lengths) % batch_size :]
    order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    return tf.random.experimental.stateless_shuffle(tf.reshape(order, [-1, batch_size]), seed)


def ended(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Sequences (N, None) with the end token behind each."""
    ends = tf.fill([ids.nrows(), 1], tf.constant(END, ids.dtype))
    return tf.concat([ids, ends], axis=1)
