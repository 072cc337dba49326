"""The processes that train together, and what they agree on."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tensorflow as tf


class Workers:
    """The processes of a strategy; without `multi_worker` there is one, the chief.

    All of them must call `any` and `of_chief` in the same order, for each waits for the others.

    Args:
        strategy: of `make_strategy`.

    Attributes:
        number: of processes.
        index: of this one.
        is_chief: whether this one is the first, which writes checkpoints and shows progress.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._names = _names(strategy)
        self.number = len(self._names)
        self.index = 0
        if self.number > 1:
            resolver = strategy.cluster_resolver
            place = f"{resolver.task_type} {resolver.task_id}"
            self.index = list(self._names).index(place)
        self.is_chief = self.index == 0

    def any(self, flag: bool) -> bool:
        """Whether the flag is True in one of the processes."""
        if self.number == 1:
            return flag
        return self._sum([np.int32(flag)], of_all=True)[0] > 0

    def of_chief(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """The values of the chief, in every process."""
        if self.number == 1:
            return values
        return self._sum(values, of_all=False)

    @contextmanager
    def together(self) -> Iterator[None]:
        yield

    def _sum(self, values: list[np.ndarray], of_all: bool) -> list[np.ndarray]:
        """The sums over the replicas of all processes, or the values of the first one."""

        @tf.function
        def summed(*values):
            replica = tf.distribute.get_replica_context()
            counts = of_all or tf.equal(replica.replica_id_in_sync_group, 0)
            kept = [tf.where(counts, value, tf.zeros_like(value)) for value in values]
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, kept)

        sums = self._strategy.run(summed, args=tuple(map(tf.constant, values)))
        return [self._strategy.experimental_local_results(x)[0].numpy() for x in sums]


def _names(strategy: tf.distribute.Strategy) -> dict[str, str]:
    """The workers by name with their addresses, the chief first."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return {"worker 0": ""}
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return {
        f"{job} {index}": address
        for job in ("chief", "worker")
        for index, address in enumerate(cluster.get(job, []))
    }
