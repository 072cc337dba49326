"""The training step of all replicas, and several of them in one call."""

import functools
from collections.abc import Callable

import tensorflow as tf

from keras_attn.ops.labels import first_outside
from keras_attn.training.faults import NONE


def make_train_call(
    strategy: tf.distribute.Strategy,
    replica_step: Callable,
    dataset: tf.data.Dataset,
    initial_step: int,
    steps_per_call: int,
) -> Callable:
    """`train(number) -> (sum, count, steps, fault)`: the next so many steps, or up to a fault.

    `steps` were applied, with these sums. If a step is at fault the call ends with it: the sums are
    those of this step alone and `fault` is its own, see `make_replica_step`.

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
        return lambda number: _one_step(*train_step(next(batches)))

    @tf.function(autograph=False)
    def train(number):
        def is_going_on(total, count, steps, fault):
            return (steps < number) & (fault[0] == NONE)

        def take_step(total, count, steps, fault):
            step_total, step_count, fault = _step(strategy, replica_step, next(batches))
            return tf.cond(
                fault[0] == NONE,
                lambda: (total + step_total, count + step_count, steps + 1, fault),
                lambda: (step_total, step_count, steps, fault),
            )

        start = tf.zeros([]), tf.zeros([]), 0, tf.zeros([3], tf.int64)
        return tf.while_loop(is_going_on, take_step, start, parallel_iterations=1)

    return lambda number: train(tf.constant(number))


def _one_step(total, count, fault):
    return total, count, int(fault[0] == NONE), fault


def make_train_step(
    strategy: tf.distribute.Strategy, replica_step: Callable, batch_spec
) -> Callable:
    """`train_step(batch) -> (sum, count, fault)`, traced once for all batches of a specification.

    For a TPU it is traced for each shape of batch, because XLA is told no unknown size there.
    """
    step = functools.partial(_step, strategy, replica_step)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return tf.function(step, autograph=False)
    return tf.function(step, input_signature=[batch_spec])


def _step(strategy, replica_step, batch):
    results = strategy.run(replica_step, args=(batch,))
    total, count, faults = map(strategy.experimental_local_results, results)
    # Every replica returns the sums over all of them, and the label that it has seen itself.
    label = first_outside([fault[1:] for fault in faults])
    return [total[0], count[0], tf.concat([faults[0][:1], label], axis=0)]
