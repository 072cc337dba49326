"""What one replica does in a training step, and what the replicas do together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from keras_attn.ops.labels import first_outside, outside_labels
from keras_attn.training.faults import LOSS, NONE, kind_of_fault
from keras_attn.training.reduction import sum_over_replicas
from keras_attn.training.shares import number_of_rows, share
from keras_attn.training.weight_average import WeightAverage


def make_replica_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    objective: Callable,
    *,
    clip_norm: float | None = None,
    accumulate: int = 1,
    jit_compile: bool = False,
    average: WeightAverage | None = None,
) -> Callable:
    """The training step as every replica takes it, `replica_step(batch) -> (sum, count, fault)`.

    With `s_ri` and `n_ri` the sum and the count of the objective over part i of the rows of replica
    r, every replica applies

    `g = clip(sum_ri ds_ri / sum_ri n_ri)`

    and does it once: the quotient is of sums over all replicas and parts, and is clipped after
    them, so that it does not matter how rows and padding were dealt out.

    A step whose loss or gradient is not finite, or with a label outside of the vocabulary, leaves
    weights, optimiser and the states of layers as they were; all replicas decide alike. Where the
    loss is scaled, what is not finite for another reason than a label is the optimiser's to skip.
    `fault`, int64 (3,), is then `[kind, label, size]`, see `faults.why_not_applied`, with the label
    that this replica saw; after a step that was applied or skipped its kind is 0.

    The step is given the whole batch and takes its own rows. It runs in a replica's context, and
    within `summing_once(optimizer)`.
    """
    variables = model.trainable_variables
    plain_gradient = make_gradient(model, optimizer, objective)

    def apply(gradients):
        optimizer.apply(gradients, variables)
        if average is not None:
            average.update(optimizer.iterations)

    def undo(states):
        for variable, state in zip(model.non_trainable_variables, states, strict=True):
            variable.assign(state)

    def replica_step(batch):
        replica = tf.distribute.get_replica_context()
        # Traced here, a compiled function reads the variables of this replica and of no other.
        gradient = tf.function(plain_gradient, jit_compile=True) if jit_compile else plain_gradient
        rows = tf.cast(number_of_rows(batch), tf.float32)
        mine = share(batch, replica.replica_id_in_sync_group, replica.num_replicas_in_sync)
        states = [tf.identity(variable.value) for variable in model.non_trainable_variables]
        total, count, label, *gradients = _sum_over_parts(
            gradient, mine, rows, accumulate, variables
        )
        sees_label = tf.cast(label[1] > 0, tf.float32)
        sums = sum_over_replicas([total, count, sees_label, *gradients])
        kind, gradients = _judged(sums, rows, clip_norm, optimizer)
        _either(kind == NONE, apply, gradients, undo, states)
        total, count, *_ = sums
        return total, count, tf.concat([[kind], label], axis=0)

    return replica_step


def make_gradient(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Callable
) -> Callable:
    """`gradient(part, rows) -> [sum, count, label, *gradients]` of some rows of a batch.

    The gradients are those of `(sum + count penalty) / rows`, times the optimiser's loss scale,
    with the penalty the model's own losses (regularisers). Added up over the parts of a batch of
    so many rows and multiplied by `rows / sum of counts` they are those of the mean and the
    penalty. `rows` keeps the numbers near those of the mean, where float16 has its digits, and is
    known before any count is. `label` is that of `first_outside`.
    """
    variables = model.trainable_variables

    def gradient(part, rows):
        with tf.GradientTape() as tape:
            with outside_labels() as found:
                total, count = objective(model, part)
            total, count = tf.cast(total, tf.float32), tf.cast(count, tf.float32)
            # The mean of no rows is not a number; no rows add nothing.
            some = number_of_rows(part) > 0
            total, count = tf.where(some, total, 0.0), tf.where(some, count, 0.0)
            penalty = sum(tf.cast(loss, tf.float32) for loss in model.losses)
            loss = tf.math.divide_no_nan(total + count * penalty, rows)
            loss = optimizer.scale_loss(loss)
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Dense, for the norm of the slices of an embedding counts a token that occurs twice as two.
        return [total, count, first_outside(found), *map(tf.convert_to_tensor, gradients)]

    return gradient


@contextmanager
def summing_once(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """While this lasts the optimiser takes gradients that are sums over the replicas already.

    Keras sums in `apply`, after it has clipped; a gradient that is to be clipped after the sum
    would go over the network twice.
    """
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables
    try:
        yield
    finally:
        del optimizer._all_reduce_sum_gradients


def _sum_over_parts(gradient, batch, rows, number: int, variables):
    """The sum of `gradient` over so many parts of a batch, one after the other."""
    if number == 1:
        return gradient(batch, rows)

    def add_part(index, label, *sums):
        total, count, part_label, *gradients = gradient(share(batch, index, number), rows)
        added = (a + b for a, b in zip(sums, (total, count, *gradients), strict=True))
        return index + 1, first_outside([label, part_label]), *added

    zeros = [tf.zeros([]), tf.zeros([]), *(tf.zeros_like(v.value) for v in variables)]
    # In parallel they would need the memory that they are there to save.
    _, label, total, count, *gradients = tf.while_loop(
        lambda index, *_: index < number,
        add_part,
        (0, first_outside([]), *zeros),
        parallel_iterations=1,
    )
    return [total, count, label, *gradients]


def _judged(sums, rows, clip_norm, optimizer):
    """The kind of fault in the sums over all replicas, and the gradients as they are applied.

    Args:
        sums: sum, count, the number of replicas that saw a label outside, and the gradients.
        rows: of the whole batch.
        clip_norm: the largest norm, in units of the optimiser's loss scale, or None.
        optimizer: if it scales the loss it looks for what is not finite itself, and goes on.
    """
    total, count, seeing_label, *gradients = sums
    factor = tf.math.divide_no_nan(rows, count)
    norm = factor * _global_norm(gradients)
    if hasattr(optimizer, "inner_optimizer"):
        kind = tf.constant(NONE, tf.int64)
        factor += total - total  # no number for such a loss, which its gradients may not tell of
    else:
        kind = kind_of_fault(total, count, norm, gradients)
    if clip_norm is not None:
        # The last term makes an infinite norm no number: 0, what is left of finite elements, would
        # pass for a gradient.
        factor *= tf.minimum(1.0, clip_norm * optimizer.scale_loss(1.0) / norm) + (norm - norm)
    kind = tf.where(seeing_label > 0, tf.constant(LOSS, tf.int64), kind)
    return kind, [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]


def _global_norm(gradients):
    """The norm of all gradients together, in float32, in passes that write nothing."""
    halves = tf.float16, tf.bfloat16  # in which squares overflow, or have no digits
    squares = [tf.nn.l2_loss(tf.cast(x, tf.float32) if x.dtype in halves else x) for x in gradients]
    if not squares:
        return tf.constant(0.0)
    return tf.sqrt(
        2.0 * tf.reduce_sum(tf.stack([tf.cast(square, tf.float32) for square in squares]))
    )


def _either(condition, apply, gradients, undo, states) -> None:
    """In every replica `apply(gradients)` if the condition holds, which is the same in all of them.

    Else `undo(states)`. Some strategies call the replicas together in `apply`, which TensorFlow
    takes in a branch only if it is entered by all of them together.
    """
    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        tf.cond(condition, lambda: apply(gradients), lambda: undo(states))
        return

    def together(strategy, condition, gradients, states):
        def in_each(function, argument):
            strategy.extended.call_for_each_replica(function, args=(argument,))

        holds = strategy.experimental_local_results(condition)[0]
        tf.cond(holds, lambda: in_each(apply, gradients), lambda: in_each(undo, states))

    tf.distribute.get_replica_context().merge_call(together, args=(condition, gradients, states))
