"""The training step of all replicas, and several of them in one call."""

import functools
from collections.abc import Callable

import tensorflow as tf


def make_train_call(
    strategy: tf.distribute.Strategy,
    replica_step: Callable,
    dataset: tf.data.Dataset,
    initial_step: int,
    steps_per_call: int,
) -> Callable:
    """`train(number) -> (sum, count)`: the next so many steps, and what they came to together.

    Args:
        strategy: runs the replicas.
        replica_step: see `make_replica_step`.
        dataset: batches, those of the first `initial_step` steps are skipped.
        initial_step: steps already done.
        steps_per_call: the most steps of a call.
    """
    batches = iter(dataset.skip(initial_step))
    if steps_per_call == 1:
        train_step = make_train_step(strategy, replica_step, dataset.element_spec)
        return lambda number: train_step(next(batches))

    @tf.function
    def train(number):
        total = count = tf.zeros([])
        for _ in tf.range(number):
            sums = _step(strategy, replica_step, next(batches))
            total, count = total + sums[0], count + sums[1]
        return total, count

    return lambda number: train(tf.constant(number))


def make_train_step(
    strategy: tf.distribute.Strategy, replica_step: Callable, batch_spec
) -> Callable:
    """`train_step(batch) -> (sum, count)`, traced once for all batches of that specification.

    For a TPU it is traced for each shape of batch, because XLA is told no unknown size there.
    """
    step = functools.partial(_step, strategy, replica_step)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return tf.function(step, autograph=False)
    return tf.function(step, input_signature=[batch_spec])


def _step(strategy, replica_step, batch):
    sums = strategy.run(replica_step, args=(batch,))
    # Every replica returns the sums over all of them.
    return [strategy.experimental_local_results(value)[0] for value in sums]
