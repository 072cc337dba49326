"""What one replica does in a training step, and what the replicas do together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

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
    """The training step as every replica takes it, `replica_step(batch) -> (sum, count)`.

    With `s_ri` and `n_ri` the sum and the count of the objective over part i of the rows of replica
    r, every replica applies

    `g = clip(sum_ri ds_ri / sum_ri n_ri)`

    and does it once: the quotient is of sums over all replicas and parts, and is clipped after
    them, so that it does not matter how rows and padding were dealt out.

    The step is given the whole batch and takes its own rows. It runs in a replica's context, and
    within `summing_once(optimizer)`.
    """
    variables = model.trainable_variables
    plain_gradient = make_gradient(model, optimizer, objective)

    def replica_step(batch):
        replica = tf.distribute.get_replica_context()
        # Traced here, a compiled function reads the variables of this replica and of no other.
        gradient = tf.function(plain_gradient, jit_compile=True) if jit_compile else plain_gradient
        rows = tf.cast(number_of_rows(batch), tf.float32)
        mine = share(batch, replica.replica_id_in_sync_group, replica.num_replicas_in_sync)
        sums = _sum_over_parts(gradient, mine, rows, accumulate, variables)
        total, count, *gradients = sum_over_replicas(sums)
        scale = optimizer.scale_loss(1.0)
        factor = tf.math.divide_no_nan(rows, count)
        optimizer.apply(_scaled(gradients, factor, clip_norm, scale), variables)
        if average is not None:
            average.update(optimizer.iterations)
        return total, count

    return replica_step


def make_gradient(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Callable
) -> Callable:
    """`gradient(part, rows) -> [sum, count, *gradients]` of some rows of a batch.

    The gradients are those of `(sum + count penalty) / rows`, times the optimiser's loss scale,
    with the penalty the model's own losses (regularisers). Added up over the parts of a batch of
    so many rows and multiplied by `rows / sum of counts` they are those of the mean and the
    penalty. `rows` keeps the numbers near those of the mean, where float16 has its digits, and is
    known before any count is.
    """
    variables = model.trainable_variables

    def gradient(part, rows):
        with tf.GradientTape() as tape:
            total, count = objective(model, part)
            total, count = tf.cast(total, tf.float32), tf.cast(count, tf.float32)
            # The mean of no rows is not a number; no rows add nothing.
            some = number_of_rows(part) > 0
            total, count = tf.where(some, total, 0.0), tf.where(some, count, 0.0)
            penalty = sum(tf.cast(loss, tf.float32) for loss in model.losses)
            loss = optimizer.scale_loss((total + count * penalty) / rows)
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Dense, for the norm of the slices of an embedding counts a token that occurs twice as two.
        return [total, count, *map(tf.convert_to_tensor, gradients)]

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

    def add_part(index, *sums):
        part = gradient(share(batch, index, number), rows)
        return index + 1, *(a + b for a, b in zip(sums, part, strict=True))

    zeros = [tf.zeros([]), tf.zeros([]), *(tf.zeros_like(v.value) for v in variables)]
    # In parallel they would need the memory that they are there to save.
    _, *sums = tf.while_loop(
        lambda index, *_: index < number, add_part, (0, *zeros), parallel_iterations=1
    )
    return sums


def _scaled(gradients, factor, clip_norm, scale):
    """The gradients times a factor, shrunk to a norm of `clip_norm` in units of `scale`."""
    if clip_norm is not None:
        norm = factor * tf.linalg.global_norm(gradients)
        # The last term makes an infinite norm no number: 0, what is left of finite elements, would
        # pass for a gradient.
        factor *= tf.minimum(1.0, clip_norm * scale / norm) + (norm - norm)
    return [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
