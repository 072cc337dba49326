"""The training step of all replicas, and several of them in one call."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops.labels import first_outside
from keras_attn.training.faults import ENDED, NONE
from keras_attn.training.worker_batches import (
    are_parts,
    batches_of_worker,
    is_one_batch,
    require_one_batch,
    step_of_worker,
    table_before,
)
from keras_attn.training.workers import Workers


class UnreadBatchError(Exception):
    """A batch could not be read, before anything of its step was computed; the cause says why."""


class Done(NamedTuple):
    """What a call of several steps has done.

    Attributes:
        total, count: of the objective, summed over the steps that were applied.
        norm: of the gradient before clipping, summed over them.
        steps: that are done, the skipped ones too.
        skipped: steps that were not applied because something was not finite.
        fault: of the step that ended the call, int64 (3,); see `make_replica_step`.
        loss: of this step.
        table: of the rows that several workers had in it, a tuple of one tensor; () for one worker.
    """

    total: tf.Tensor
    count: tf.Tensor
    norm: tf.Tensor
    steps: tf.Tensor
    skipped: tf.Tensor
    fault: tf.Tensor
    loss: tf.Tensor
    table: tuple[tf.Tensor, ...] = ()

    def then(self, step: "Done") -> "Done":
        """The sum of what was done before and a step."""
        sums = (a + b for a, b in zip(self[:5], step[:5], strict=True))
        return Done(*sums, step.fault, step.loss, step.table)


def make_train_call(
    strategy: tf.distribute.Strategy,
    replica_step: Callable,
    dataset: tf.data.Dataset,
    initial_step: int,
    steps_per_call: int,
) -> Callable:
    """`train(number) -> Done`: the next so many steps, or up to a fault.

    If a step is at fault the call ends with it; the steps before it are done. The end of the data
    is such a fault, `ENDED`. All workers raise `UserError` after a step for which they had
    different batches.

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
    reached = initial_step

    def train_together(number):
        nonlocal reached
        done = train(number)
        reached += int(done.steps)
        require_one_batch(*done.table, step=reached)
        return done

    return train_together


def _one_step(strategy, step, elements, workers) -> Callable:
    """`train(number)` with one step, whose batch is read before anything is trained."""
    train_step, batches = make_train_step(strategy, step, elements.element_spec), iter(elements)

    def train(number):
        try:
            batch = next(batches, None)
        except tf.errors.OpError as error:
            raise UnreadBatchError from error
        return _ended(workers) if batch is None else train_step(batch)

    return train


def _several_steps(strategy, step, elements, workers) -> Callable:
    batches = iter(elements)

    @tf.function(autograph=False)
    def train(number):
        def is_going_on(*done):
            done = Done(*done)
            return (done.steps < number) & (done.fault[0] == NONE) & is_one_batch(*done.table)

        def take_step(*done):
            batch = batches.get_next_as_optional()
            next_step = tf.cond(
                batch.has_value(),
                lambda: _step(strategy, step, batch.get_value()),
                lambda: _ended(workers),
            )
            return Done(*done).then(next_step)

        start = _nothing(workers)
        return Done(*tf.while_loop(is_going_on, take_step, start, parallel_iterations=1))

    return lambda number: train(tf.constant(number))


def make_train_step(
    strategy: tf.distribute.Strategy, replica_step: Callable, batch_spec
) -> Callable:
    """`train_step(batch) -> Done`, traced once for all batches of a specification.

    For a TPU it is traced for each shape of batch, because XLA is told no unknown size there.
    """
    step = functools.partial(_step, strategy, replica_step)
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return tf.function(step, autograph=False)
    return tf.function(step, input_signature=[batch_spec], autograph=False)


def _step(strategy, replica_step, batch) -> Done:
    results = strategy.run(replica_step, args=(batch,))
    *sums, faults = map(strategy.experimental_local_results, results[:5])
    table = tuple(strategy.experimental_local_results(of_all)[0] for of_all in results[5:])
    # Every replica returns the sums over all of them, and the label that it has seen itself.
    total, count, norm, skipped = (of_all[0] for of_all in sums)
    label = first_outside([fault[1:] for fault in faults])
    fault = tf.concat([faults[0][:1], label], axis=0)
    is_done = tf.equal(fault[0], NONE)
    counted = (tf.where(is_done, value, 0.0) for value in (total, count, norm))
    loss = tf.math.divide_no_nan(total, count)
    return Done(*counted, tf.cast(is_done, tf.int32), skipped, fault, loss, table)


def _nothing(workers: Workers) -> Done:
    zero = tf.constant(0.0)
    fault = tf.zeros([3], tf.int64)
    return Done(
        zero, zero, zero, tf.constant(0), tf.constant(0), fault, zero, table_before(workers)
    )


def _ended(workers: Workers) -> Done:
    return _nothing(workers)._replace(fault=tf.constant([ENDED, 0, 0], tf.int64))
