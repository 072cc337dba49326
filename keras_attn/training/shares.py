"""Rows of a batch, divided among those who work on it."""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Part:
    """Those rows of a batch that a worker has read, for its own replicas.

    Args:
        rows: a nest of tensors (rows of this worker, ...).
        first: the place of the first of them in the batch, a scalar tensor.
        total: rows of the batch, a scalar tensor.
        workers: how many there are, each with as many replicas.
    """

    rows: object
    first: tf.Tensor
    total: tf.Tensor
    workers: int


def share(batch, index, number: int):
    """The rows of a batch that fall to one of `number` parties, as evenly as they can be divided.

    Party i takes the rows from `i B // n` to before `(i + 1) B // n`, in order, so that all the
    shares together are the batch. A share is empty if there are fewer rows than parties.

    Args:
        batch: a nest of tensors (B, ...), ragged ones too; scalars go to everyone. Of a `Part` the
            shares are those that the whole batch would have.
        index: of the party, an integer or a scalar tensor.
        number: of parties.

    Returns:
        The tensors of that share; their number of rows is static if B is and divides evenly.
    """
    if isinstance(batch, Part):
        return _share_of_part(batch, index, number)
    if number == 1:
        return batch

    def rows(tensor):
        if tensor.shape.rank == 0:
            return tensor
        total = tensor.shape[0]
        if total is None:
            total = tf.shape(tensor)[0]
        elif total % number == 0:
            size = total // number
            return tf.gather(tensor, index * size + tf.range(size))
        start, stop = index * total // number, (index + 1) * total // number
        return tf.gather(tensor, tf.range(start, stop))

    return tf.nest.map_structure(rows, batch)


def _share_of_part(part: Part, index, number: int):
    """The rows of a party that belongs to this worker, one of `number` parties in all."""
    replicas = number // part.workers
    size = next(x.shape[0] for x in tf.nest.flatten(part.rows) if x.shape.rank != 0)
    if size is not None and size % replicas == 0:  # then the even division is that of the batch
        return share(part.rows, index % replicas, replicas)
    index, total = tf.cast(index, tf.int64), tf.cast(part.total, tf.int64)
    start, stop = index * total // number, (index + 1) * total // number
    places = tf.range(start, stop) - tf.cast(part.first, tf.int64)

    def rows(tensor):
        return tensor if tensor.shape.rank == 0 or replicas == 1 else tf.gather(tensor, places)

    return tf.nest.map_structure(rows, part.rows)


def number_of_rows(batch) -> tf.Tensor:
    """B of a batch, also of the one that a `Part` belongs to: a scalar integer tensor."""
    if isinstance(batch, Part):
        return batch.total
    tensor = next(x for x in tf.nest.flatten(batch) if x.shape.rank != 0)
    return tf.convert_to_tensor(tensor.shape[0] or tf.shape(tensor)[0])
