"""What each of several workers reads of a batch, and whether it is the same batch for all.

Beside its step every worker sends a row of four numbers: the digest of the batch, the place of its
first row in it, of the row after its last, and how many rows the batch has. All get the table of
these rows, decide alike, and wait no longer for it than for the gradients.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.protocols import SeekableDataset
from keras_attn.training.reduction import sum_over_replicas
from keras_attn.training.shares import Part, number_of_rows
from keras_attn.training.workers import Workers

_MULTIPLIER = 6_364_136_223_846_793_005  # Knuth's: odd, so that no bit is lost
_COLUMNS = 4


def batches_of_worker(dataset: tf.data.Dataset, step: int, workers: Workers) -> tf.data.Dataset:
    """The batches from a step on; of several workers, `(rows, first, total, digest)` of them.

    A worker reads its own rows of a `SeekableDataset`, as `SeekableBatches` are, and all of any
    other.
    """
    if workers.number == 1:
        return dataset.from_step(step) if are_parts(dataset) else dataset.skip(step)
    if are_parts(dataset):
        return dataset.parts(step, workers.index, workers.number)

    def whole(*parts):
        batch = tf.nest.pack_sequence_as(dataset.element_spec, tf.nest.flatten(parts))
        total = tf.cast(number_of_rows(batch), tf.int64)
        return batch, tf.constant(0, tf.int64), total, digest_of(batch)

    return dataset.skip(step).map(whole).prefetch(1)


def are_parts(dataset: tf.data.Dataset) -> bool:
    """Whether a worker reads its own rows only."""
    return isinstance(dataset, SeekableDataset)


def step_of_worker(replica_step: Callable, is_part: bool, workers: Workers) -> Callable:
    """The step of a replica as it takes what `batches_of_worker` gives.

    Of several workers it returns the table of all of them too. `is_part` is whether a worker has
    its own rows only.
    """
    if workers.number == 1:
        return replica_step

    def step(rows, first, total, digest):
        replica = tf.distribute.get_replica_context()
        replicas = replica.num_replicas_in_sync // workers.number
        own = tf.cast(number_of_rows(rows), tf.int64)
        line = tf.stack([digest, first, first + own, total])
        is_first = tf.cast(replica.replica_id_in_sync_group % replicas == 0, tf.int64)
        here = tf.one_hot(workers.index, workers.number, dtype=tf.int64)[:, None] * is_first
        (table,) = sum_over_replicas([here * line])  # (workers, 4)
        batch = Part(rows, first, total, workers.number) if is_part else rows
        return *replica_step(batch), table

    return lambda element: step(*element)


def table_before(workers: Workers) -> tuple[tf.Tensor, ...]:
    """A table in which all is well; none where there is one worker."""
    return (tf.zeros([workers.number, _COLUMNS], tf.int64),) if workers.number > 1 else ()


def is_one_batch(*table: tf.Tensor) -> tf.Tensor:
    """Whether the rows are shares of one batch or all of them the whole batch."""
    if not table:
        return tf.constant(True)
    digests, firsts, stops, totals = tf.unstack(table[0], axis=1)
    is_same = tf.reduce_all((digests == digests[0]) & (totals == totals[0]))
    is_whole = tf.reduce_all((firsts == 0) & (stops == totals))
    is_dealt = (firsts[0] == 0) & (stops[-1] == totals[0]) & tf.reduce_all(firsts[1:] == stops[:-1])
    return is_same & (is_whole | is_dealt)


def require_one_batch(*table: tf.Tensor, step: int) -> None:
    """Raise `UserError`, the same one in every worker, if the table says that batches differ."""
    if not table or is_one_batch(*table):
        return
    digests, firsts, stops, totals = np.asarray(table[0]).T
    begin = f"The workers had different batches at step {step}, and training ended"
    if len(set(totals)) > 1:
        rows = ", ".join(f"worker {index} one of {total}" for index, total in enumerate(totals))
        what = f"{rows} rows"
    elif len(set(digests)) > 1:
        other = int(np.argmax(digests != digests[0]))
        what = f"worker 0 and worker {other} have as many rows, {totals[0]}, with other content"
    else:
        rows = zip(firsts, stops, strict=True)
        read = ", ".join(f"{first} to {stop}" for first, stop in rows)
        what = f"of its {totals[0]} rows they read {read}, which is not every row once"
    raise UserError(f"{begin}: {what}. Give all of them the same data, settings and seed.")


def digest_of(batch) -> tf.Tensor:
    """A number, int64, that depends on every element of a batch, its place and the shapes."""
    digest = tf.constant(0, tf.int64)
    for tensor in tf.nest.flatten(batch, expand_composites=True):
        numbers = tf.reshape(_as_integers(tensor), [-1])
        places = tf.range(1, tf.size(numbers, tf.int64) + 1, dtype=tf.int64) * _MULTIPLIER
        shape = tf.shape(tensor, tf.int64)
        sizes = shape * tf.range(1, tf.size(shape, tf.int64) + 1, dtype=tf.int64)
        mixed = tf.reduce_sum(numbers * (places ^ tf.bitwise.right_shift(places, 29)))
        digest = digest * _MULTIPLIER + mixed + tf.reduce_sum(sizes)
    return digest


def _as_integers(tensor: tf.Tensor) -> tf.Tensor:
    if tensor.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(tensor, 2**62)
    if tensor.dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)])
    if tensor.dtype.is_floating:
        sizes = {1: tf.int8, 2: tf.int16, 4: tf.int32, 8: tf.int64}
        tensor = tf.bitcast(tensor, sizes[tensor.dtype.size])
    return tf.cast(tensor, tf.int64)
