"""Rows of a batch, divided among those who work on it."""

import tensorflow as tf


def share(batch, index, number: int):
    """The rows of a batch that fall to one of `number` parties, as evenly as they can be divided.

    Party i takes the rows from `i B // n` to before `(i + 1) B // n`, in order, so that all the
    shares together are the batch. A share is empty if there are fewer rows than parties.

    Args:
        batch: a nest of tensors (B, ...), ragged ones too; scalars go to everyone.
        index: of the party, an integer or a scalar tensor.
        number: of parties.

    Returns:
        The tensors of that share; their number of rows is static if B is and divides evenly.
    """
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


def number_of_rows(batch) -> tf.Tensor:
    """B of a batch, a scalar integer tensor."""
    tensor = next(x for x in tf.nest.flatten(batch) if x.shape.rank != 0)
    return tf.convert_to_tensor(tensor.shape[0] or tf.shape(tensor)[0])
