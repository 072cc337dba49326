"""What one replica does in a training step, and what the replicas do together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from keras_attn.ops.labels import first_outside, outside_labels
from keras_attn.protocols import LossScaler
from keras_attn.training.faults import (
    COUNT,
    LABEL,
    NONE,
    STATE,
    is_left_to,
    kind_of_fault,
    without_new_faults,
)
from keras_attn.training.objective_call import call_objective
from keras_attn.training.penalties import penalties
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
    skip_not_finite: bool = False,
    added_losses: str | None = None,
) -> Callable:
    """The training step as every replica takes it.

    With `s_ri` and `n_ri` the sum and the count of the objective over part i of the rows of replica
    r, every replica applies

    `g = clip(sum_ri ds_ri / sum_ri n_ri)`

    and does it once: the quotient is of sums over all replicas and parts, and is clipped after
    them, so that it does not matter how rows and padding were dealt out.

    A step whose loss or gradient or a state of a layer is not finite, or with a label outside of
    the vocabulary, leaves weights, optimiser and the states of layers as they were; all replicas
    decide alike. Where the loss is scaled, what is not finite for another reason than a label is
    the optimiser's to skip, unless its scale has become tiny.

    The step is given the whole batch and takes its own rows. It runs in a replica's context, and
    within `summing_once(optimizer)`.

    Returns:
        `replica_step(batch) -> [sum, count, norm, skipped, fault]`: the sums over all replicas; the
        norm of the gradient before it is clipped; 1 if the step was skipped because something was
        not finite, and then the norm is 0, as are the sums unless they are of a loss that only its
        scale made overflow; and `[kind, label, size]`, int64 (3,), see `faults.why_not_applied`,
        with the label that this replica saw. After a step that was applied or skipped the kind is
        `NONE`.
    """
    variables = model.trainable_variables

    def apply(gradients):
        optimizer.apply(gradients, variables)
        if average is not None:
            average.update(optimizer.iterations)

    def undo(states):
        for variable, state in zip(model.non_trainable_variables, states, strict=True):
            variable.assign(state)

    def replica_step(batch):
        replica = tf.distribute.get_replica_context()
        parts = replica.num_replicas_in_sync * accumulate
        gradient = make_gradient(model, optimizer, objective, parts, added_losses)
        if jit_compile or accumulate > 1:
            # Traced here, a function reads the variables of this replica and of no other; it is
            # traced once for all of the parts.
            gradient = tf.function(gradient, jit_compile=jit_compile, autograph=False)
        rows = tf.cast(number_of_rows(batch), tf.float32)
        scale = tf.cast(optimizer.scale_loss(1.0), tf.float32)  # before the optimiser changes it
        mine = share(batch, replica.replica_id_in_sync_group, replica.num_replicas_in_sync)
        states = [tf.identity(variable.value) for variable in model.non_trainable_variables]
        total, count, label, *gradients = _sum_over_parts(gradient, mine, rows, accumulate)
        sees_label = tf.cast(label[1] > 0, tf.float32)
        spoils_state = tf.cast(~without_new_faults(*_changing(model, states)), tf.float32)
        sums = sum_over_replicas([total, count, spoils_state, sees_label, *gradients])
        total, count, spoilt, seen, *gradients = sums
        gradients, factor = _of_mean(gradients, rows, count, len(variables))
        norm = factor * _global_norm(gradients)
        kind = kind_of_fault(total, count, norm, spoilt == 0, gradients)
        is_overflow = (kind != COUNT) & (kind != STATE) & is_left_to(optimizer)
        is_overflow &= (kind != NONE) & (seen == 0)
        gradients = _clipped(gradients, factor, norm, total, clip_norm, optimizer)
        kind = tf.where(seen > 0, tf.constant(LABEL, tf.int64), kind)
        _either((kind == NONE) | is_overflow, apply, gradients, undo, states)
        is_forward_spoilt = ~tf.math.is_finite(total) | (spoilt > 0)
        if isinstance(optimizer, LossScaler):
            # The optimiser skips the step, and knows nothing of the states.
            _either(is_overflow & is_forward_spoilt, undo, states, _leave, ())
        skips = tf.constant(skip_not_finite) & (kind != NONE) & (kind != COUNT) & (kind != LABEL)
        is_skipped = is_overflow | skips
        is_counted = ~is_skipped | (is_overflow & ~is_forward_spoilt)
        return [
            tf.where(is_counted, total, 0.0),
            tf.where(is_counted, count, 0.0),
            tf.where(is_skipped, 0.0, norm / scale),
            tf.cast(is_skipped, tf.int32),
            tf.concat([[tf.where(is_skipped, tf.constant(NONE, tf.int64), kind)], label], axis=0),
        ]

    return replica_step


def make_gradient(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    objective: Callable,
    parts: int = 1,
    added_losses: str | None = None,
) -> Callable:
    """`gradient(part, rows) -> [sum, count, label, *gradients]` of some rows of a batch.

    The gradients are those of `(sum + count penalty) / rows`, times the optimiser's loss scale,
    with the penalty the model's own losses (regularisers). Added up over the parts of a batch of
    so many rows and multiplied by `rows / sum of counts` they are those of the mean and the
    penalty. `rows` keeps the numbers near those of the mean, where float16 has its digits, and is
    known before any count is. `label` is that of `first_outside`.

    What has to be added up over several parts, see `penalties`, does not depend on the count of all
    of them: its gradients, times the loss scale, are a second list behind the first.
    """
    variables = model.trainable_variables

    def gradient(part, rows):
        with tf.GradientTape(persistent=True) as tape:
            model._clear_losses()  # of layers that were called elsewhere and are not called here
            with outside_labels() as found:
                total, count = call_objective(objective, model, part)
            # The mean of no rows is not a number; no rows add nothing.
            some = number_of_rows(part) > 0
            total, count = tf.where(some, total, 0.0), tf.where(some, count, 0.0)
            my_share = tf.cast(number_of_rows(part), tf.float32) / rows
            penalty, of_part = penalties(model, my_share, parts, added_losses)
            loss = tf.math.divide_no_nan(total + count * penalty, rows)
            losses = [optimizer.scale_loss(loss)]
            if of_part is not None:
                losses.append(optimizer.scale_loss(of_part))
        _require_no_new_variables(model, variables)
        by_mean, *by_part = (_dense_gradients(tape, loss, variables) for loss in losses)
        _require_dependence(objective, [*by_mean, *(x for each in by_part for x in each)])
        added = [tf.where(some, x, tf.zeros_like(x)) for x in _without_none(by_part, variables)]
        return [total, count, first_outside(found), *_without_none([by_mean], variables), *added]

    return gradient


@contextmanager
def summing_once(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """While this lasts the optimiser takes gradients that are sums over the replicas already.

    Keras sums in `apply`, after it has clipped; a gradient that is to be clipped after the sum
    would go over the network twice.
    """
    while isinstance(optimizer, LossScaler):
        optimizer = optimizer.inner_optimizer
    optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables
    try:
        yield
    finally:
        del optimizer._all_reduce_sum_gradients


def _dense_gradients(tape, loss, variables) -> list:
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    # Dense, for the norm of the slices of an embedding counts a token that occurs twice as two.
    return [None if x is None else tf.convert_to_tensor(x) for x in gradients]


def _without_none(lists, variables) -> list:
    """All gradients in one list, with zeros for what a loss does not depend on."""
    return [
        tf.zeros_like(variable.value) if gradient is None else gradient
        for gradients in lists
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _require_no_new_variables(model, variables) -> None:
    if len(model.trainable_variables) != len(variables):
        new = model.trainable_variables[len(variables) :]
        raise ValueError(
            "A layer made weights while it was trained, which the optimiser does not know: build "
            "all layers before, with keras.Input or a call of the model. "
            f"Received: model={model.name} with new {new[0].path if new else 'layers'}"
        )


def _require_dependence(objective, gradients) -> None:
    if all(gradient is None for gradient in gradients):
        raise ValueError(
            "The sum that the objective returns depends on no trained weight, so that nothing "
            "would be learned: compute it from what the model says, with TensorFlow's or Keras' "
            f"functions. Received: objective={getattr(objective, '__qualname__', objective)}"
        )


def _changing(model, states) -> tuple[list, list]:
    """The variables that layers write while they are called, and what they were before."""
    written = {
        id(variable)
        for layer in model._flatten_layers()
        for variable in layer._non_trainable_variables
    }
    pairs = zip(model.non_trainable_variables, states, strict=True)
    chosen = [(variable, state) for variable, state in pairs if id(variable) in written]
    return [variable for variable, _ in chosen], [state for _, state in chosen]


def _sum_over_parts(gradient, batch, rows, number: int):
    """The sum of `gradient` over so many parts of a batch, one after the other."""
    if number == 1:
        return gradient(batch, rows)

    def add_part(index, total, count, label, *sums):
        found = gradient(share(batch, index, number), rows)
        added = [a + b for a, b in zip(sums, found[3:], strict=True)]
        label = first_outside([label, found[2]])
        return index + 1, total + found[0], count + found[1], label, *added

    # In parallel they would need the memory that they are there to save.
    _, *sums = tf.while_loop(
        lambda index, *_: index < number,
        add_part,
        (1, *gradient(share(batch, 0, number), rows)),
        parallel_iterations=1,
    )
    return sums


def _of_mean(gradients, rows, count, number: int):
    """The gradients up to a factor, and the factor: sums over replicas and parts become a mean.

    Args:
        gradients: so many, of which each is multiplied by `rows / count`; behind them as many that
            are not, or none.
        rows: of the whole batch.
        count: the sum of the counts; a batch in which nothing counts moves nothing.
        number: of variables.
    """
    factor = tf.math.divide_no_nan(rows, count)
    by_mean, by_part = gradients[:number], gradients[number:]
    if not by_part:
        return by_mean, factor
    counts = tf.cast(count != 0, tf.float32)
    whole = [
        tf.cast(factor, a.dtype) * a + tf.cast(counts, b.dtype) * b
        for a, b in zip(by_mean, by_part, strict=True)
    ]
    return whole, tf.constant(1.0)


def _clipped(gradients, factor, norm, total, clip_norm, optimizer):
    """The gradients as they are applied.

    Args:
        gradients, factor: of `_of_mean`.
        norm: of their products.
        total: the loss; if it scales the loss the optimiser looks for what is not finite itself.
        clip_norm: the largest norm, in units of the optimiser's loss scale, or None.
        optimizer: of which it is asked whether and how it scales.
    """
    if isinstance(optimizer, LossScaler):
        # No number where one of them is none, which the gradients themselves may not tell of.
        factor += (total - total) + (norm - norm)
    if clip_norm is not None:
        # The last term makes an infinite norm no number: 0, what is left of finite elements, would
        # pass for a gradient.
        factor *= tf.minimum(1.0, clip_norm * optimizer.scale_loss(1.0) / norm) + (norm - norm)
    return [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]


def _leave(_) -> None:
    """Change nothing."""


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
