"""The training step of all replicas, and several of them in one call."""

import functools
from collections.abc import Callable

import tensorflow as tf

from keras_attn.ops.labels import first_outside
from keras_attn.training.faults import NONE
from keras_attn.training.worker_batches import (
    are_parts,
    batches_of_worker,
    is_one_batch,
    require_one_batch,
    step_of_worker,
    table_before,
)
from keras_attn.training.workers import Workers


def make_train_call(
    strategy: tf.distribute.Strategy,
    replica_step: Callable,
    dataset: tf.data.Dataset,
    initial_step: int,
    steps_per_call: int,
) -> Callable:
    """`train(number) -> (sum, count, steps, fault)`: the next so many steps, or up to a fault.

    `steps` were applied, with these sums. If a step is at fault the call ends with it: the sums are
    those of this step alone and `fault` is its own, see `make_replica_step`. All workers raise
    `UserError` after a step for which they had different batches.

    Args:
        strategy: runs the replicas.
        replica_step: see `make_replica_step`.
        dataset: batches, which begin at the step `initial_step`: `SeekableBatches` at once, other
            datasets after the steps before have been skipped.
        initial_step: steps already done.
        steps_per_call: the most steps of a call.
    """
    workers = Workers(strategy)
    elements = batches_of_worker(dataset, initial_step, workers)
    step = step_of_worker(replica_step, are_parts(dataset), workers)
    call = _one_step if steps_per_call == 1 else _several_steps
    train = call(strategy, step, elements, workers)
    done = initial_step

    def train_together(number):
        nonlocal done
        total, count, steps, fault, *table = train(number)
        require_one_batch(*table, step=done + int(steps))
        done += int(steps)
        return total, count, steps, fault

    return train_together


def _one_step(strategy, step, elements, workers) -> Callable:
    train_step, batches = make_train_step(strategy, step, elements.element_spec), iter(elements)

    def train(number):
        total, count, fault, *table = train_step(next(batches))
        return total, count, int(fault[0] == NONE), fault, *table

    return train


def _several_steps(strategy, step, elements, workers) -> Callable:
    batches = iter(elements)

    @tf.function(autograph=False)
    def train(number):
        def is_going_on(total, count, steps, fault, *table):
            return (steps < number) & (fault[0] == NONE) & is_one_batch(*table)

        def take_step(total, count, steps, fault, *table):
            step_total, step_count, fault, *table = _step(strategy, step, next(batches))
            return tf.cond(
                fault[0] == NONE,
                lambda: (total + step_total, count + step_count, steps + 1, fault, *table),
                lambda: (step_total, step_count, steps, fault, *table),
            )

        start = tf.zeros([]), tf.zeros([]), 0, tf.zeros([3], tf.int64), *table_before(workers)
        return tf.while_loop(is_going_on, take_step, start, parallel_iterations=1)

    return lambda number: train(tf.constant(number))


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
    total, count, faults, *table = map(strategy.experimental_local_results, results)
    # Every replica returns the sums over all of them, and the label that it has seen itself.
    label = first_outside([fault[1:] for fault in faults])
    fault = tf.concat([faults[0][:1], label], axis=0)
    return [total[0], count[0], fault, *(values[0] for values in table)]
