"""Batches that begin at any step, whole or only those rows of them that fall to a worker."""

from collections.abc import Callable, Mapping
from typing import Protocol

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.shares import number_of_rows, share

_PREFIX = "data/"


class BatchSource(Protocol):
    """Endless batches in one global order, which is a function of `identity` and of nothing else.

    Attributes:
        identity: what the order and the content follow from, such as the seed and the size of a
            batch: numbers by name.
    """

    identity: Mapping[str, float]

    def parts(self, step: int, index: int, number: int) -> tf.data.Dataset:
        """What falls to a worker of the batch of that step, of the next one, and so on.

        Args:
            step: of the first batch.
            index: of the worker.
            number: of workers; of one, all rows are its own.

        Returns:
            A dataset of `(rows, total, digest)`: the rows of `training.shares.share`, how many the
            whole batch has, and a number (int64) that two batches share only if they are the same.
        """

    def position(self, step: int) -> dict:
        """Numbers and arrays by name from which that step is found again at once."""

    def remember(self, position: Mapping) -> None:
        """Take what `position` gave, in this process or in another one."""


class SeekableBatches(tf.data.Dataset):
    """A `tf.data.Dataset` that begins at any step, and whose rows can be read by several workers.

    To everybody else it is the dataset of the whole batches from the first one on; `training.fit`
    begins where it needs to, and has every worker read its own rows.

    Args:
        source: of the batches.

    Example:
        >>> batches = seekable_batches(lambda step: tf.range(2 * step, 2 * step + 2))
        >>> list(batches.take(2).as_numpy_iterator())
        [array([0, 1]), array([2, 3])]
        >>> next(batches.from_step(100_000).as_numpy_iterator())
        array([200000, 200001])
        >>> rows, first, total, _ = next(iter(batches.parts(7, index=1, number=2)))
        >>> rows.numpy(), int(first), int(total)
        (array([15]), 1, 2)
    """

    def __init__(self, source: BatchSource):
        self._source = source
        self._whole = self.from_step(0)
        super().__init__(tf.data.experimental.to_variant(self._whole))

    @property
    def element_spec(self):
        return self._whole.element_spec

    @property
    def identity(self) -> dict[str, float]:
        """What content and order follow from: numbers by name."""
        return dict(self._source.identity)

    def _inputs(self):
        return [self._whole]

    def from_step(self, step: int) -> tf.data.Dataset:
        """The whole batches of that step and of those that follow."""
        parts = self._source.parts(step, 0, 1)
        return parts.map(lambda rows, total, digest: rows).prefetch(4)

    def parts(self, step: int, index: int, number: int) -> tf.data.Dataset:
        """`(rows, first, total, digest)` of what falls to a worker from a step on.

        The rows of all workers are the batch: `first` is the place of the first one in it, `total`
        how many it has, and `digest` the same for all of them.
        """

        def placed(rows, total, digest):
            return rows, index * total // number, total, digest

        return self._source.parts(step, index, number).map(placed).prefetch(4)

    def state(self, step: int) -> dict:
        """What a checkpoint of that step saves, so that going on from there takes no time.

        It is right also when batches of later steps have been read ahead.
        """
        saved = {**self._source.identity, **self._source.position(step)}
        return {_PREFIX + name: value for name, value in saved.items()}

    def restore(self, progress: Mapping) -> "SeekableBatches":
        """Take the state in what a checkpoint saved; return these batches.

        A checkpoint without one is good too: the way to its step is then found anew.

        Raises:
            UserError: if it is of other data or of another order.
        """
        saved = {
            name.removeprefix(_PREFIX): value
            for name, value in progress.items()
            if name.startswith(_PREFIX)
        }
        if not saved:
            return self
        differing = [
            f"{name} is {saved.get(name)} there and {value} here"
            for name, value in self._source.identity.items()
            if saved.get(name) != value
        ]
        if differing:
            raise UserError(
                "The checkpoint was made with other batches, so that its place in them means "
                f"nothing here: {'; '.join(differing)}. Give the data and the settings of then."
            )
        self._source.remember(saved)
        return self

    def mapped(self, function: Callable) -> "SeekableBatches":
        """Batches changed by a function of the whole batch, which every worker then makes whole."""
        return SeekableBatches(_Mapped(self._source, function))


def seekable_batches(
    batch_of: Callable, read: Callable | None = None, identity: Mapping[str, float] | None = None
) -> SeekableBatches:
    """Endless batches that are functions of their step.

    With `read`, what costs time is done by each worker for its own rows: `batch_of(step)` then only
    names the rows of a batch, by their numbers in a store for example.

    Args:
        batch_of: from the number of a step, a scalar int64 tensor, to a nest of tensors (B, ...).
            TensorFlow traces it: what is random must be a function of the step too.
        read: `read(rows, batch)`, from those rows of `batch_of` that fall to this worker to what
            the model is given; `batch` is `batch_of` whole, for its greatest length for example.
            Without it `batch_of` itself is what the model is given.
        identity: numbers by name that content and order follow from, such as a seed. Workers and
            checkpoints must have the same.

    Example:
        >>> table = tf.range(10.0)
        >>> def rows(step):  # a new order in every pass of two steps
        ...     places = 5 * (step % 2) + tf.range(5, dtype=tf.int64)
        ...     return tf.random.experimental.index_shuffle(places, tf.stack([7, step // 2]), 9)
        >>> batches = seekable_batches(rows, lambda rows, batch: tf.gather(table, rows))
        >>> one_pass = tf.concat(list(batches.take(2)), 0)
        >>> tf.sort(one_pass).numpy().tolist() == table.numpy().tolist()
        True
    """
    return SeekableBatches(_OfSteps(batch_of, read, identity or {}))


class _OfSteps:
    def __init__(self, batch_of, read, identity):
        self.identity = identity
        self._batch_of = batch_of
        self._read = read

    def parts(self, step, index, number):
        def part(number_of_step):
            batch = self._batch_of(number_of_step)
            total = tf.cast(number_of_rows(batch), tf.int64)
            rows = share(batch, index, number)
            return rows if self._read is None else self._read(rows, batch), total, number_of_step

        return tf.data.Dataset.range(step, 2**62).map(part)

    def position(self, step):
        return {"step": step}

    def remember(self, position):
        pass


class _Mapped:
    def __init__(self, source, function):
        self.identity = source.identity
        self.position = source.position
        self.remember = source.remember
        self._source = source
        self._function = function

    def parts(self, step, index, number):
        def part(rows, total, digest):
            batch = self._function(*rows) if isinstance(rows, tuple) else self._function(rows)
            total = tf.cast(number_of_rows(batch), tf.int64)
            return share(batch, index, number), total, digest

        return self._source.parts(step, 0, 1).map(part)
