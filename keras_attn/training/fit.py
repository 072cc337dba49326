"""The training loop."""

from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.agreement import Agreement
from keras_attn.training.dropout_seeds import seeds_of_replicas
from keras_attn.training.faults import NONE, why_not_applied
from keras_attn.training.objectives import token_objective
from keras_attn.training.replica_step import make_replica_step, summing_once
from keras_attn.training.supported import require_supported
from keras_attn.training.train_step import make_train_call
from keras_attn.training.weight_average import WeightAverage
from keras_attn.training.workers import Workers


def fit(
    model: keras.Model,
    dataset: tf.data.Dataset,
    steps: int | None,
    *,
    optimizer: keras.optimizers.Optimizer,
    objective: Callable | None = None,
    clip_norm: float | None = None,
    initial_step: int = 0,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    strategy: tf.distribute.Strategy | None = None,
    accumulate: int = 1,
    average: WeightAverage | None = None,
    steps_per_call: int = 1,
    jit_compile: bool = False,
) -> int:
    """Train a model from step `initial_step` to `steps` and return the step that was reached.

    Each step minimises `sum / count` of the objective over the whole batch (plus the model's own
    losses, such as regularisers), the gradient clipped to a global norm of `clip_norm` before the
    optimiser sees it. Under a strategy the rows of every batch are dealt out to the replicas; the
    sums, counts and gradients of all of them are added before anything is divided or clipped, so
    that the weights are those of one device with the same batches, to rounding.

    A step whose loss or gradient is not finite, or with a label outside of the vocabulary, is not
    applied and ends the training: weights, optimiser and the states of layers stay as they were
    before it, as does the last checkpoint. It is so on every path, with XLA and without, and only
    what makes a scaled loss overflow is left to the `LossScaleOptimizer`, which skips the step.

    Args:
        model: any Keras model, built in the scope of the strategy.
        dataset: endless batches; those of the first `initial_step` steps are skipped, so that a
            run which continues sees the batches it would have seen. `data.seekable.SeekableBatches`
            begin at that step at once, and every worker reads its own rows of them; of another
            dataset every worker is given the same batches, reads them whole and takes its own rows.
        steps: the step at which training ends; None if a callback ends it.
        optimizer: a Keras optimiser, made in the scope of the strategy. For float16 layers a
            `keras.optimizers.LossScaleOptimizer`.
        objective: `objective(model, batch) -> (sum, count)`; `token_objective()` by default.
        clip_norm: the largest norm of the gradient, or None.
        initial_step: steps already done.
        callbacks: Keras callbacks; they see one epoch of `steps` batches (see `Epochs` for more),
            and may set `model.stop_training`. All workers call them, with the same numbers; all
            stop after the step at which one of them is told to.
        strategy: of `make_strategy`; by default the one in whose scope this is called.
        accumulate: parts that each replica's rows are cut into, which it works on one after the
            other: the result of the whole batch in the memory of a part.
        average: a moving average of the weights that is kept beside them, or None.
        steps_per_call: training steps for each call of the callbacks, one after the other on the
            devices; they are called with the mean of these steps, and with the number of the last.
        jit_compile: whether XLA compiles loss and gradient, once for each shape of batch.

    Raises:
        ValueError: if the strategy cannot train this model or optimiser exactly; the sentence says
            why and what to do.
        UserError: if a step was not applied; the sentence names the step and what was not finite,
            or the label and the size of the vocabulary. If another worker does not answer any more,
            or has other batches, settings or weights; the sentence says what differs.

    Example:
        >>> fit(model, batches, steps=1000, optimizer=keras.optimizers.Adam(1e-3), clip_norm=1.0)
        1000
    """
    strategy = strategy or tf.distribute.get_strategy()
    require_supported(model, optimizer, strategy, accumulate, jit_compile)
    workers = Workers(strategy)
    callbacks = list(callbacks)
    agreement = Agreement(workers, model, callbacks)
    with workers.together():
        agreement.require_same_training(
            dataset,
            optimizer,
            objective,
            steps=steps,
            initial_step=initial_step,
            clip_norm=clip_norm,
            accumulate=accumulate,
            steps_per_call=steps_per_call,
            jit_compile=jit_compile,
            average=average is not None,
        )
    if not optimizer.built:
        with strategy.scope():
            optimizer.build(model.trainable_variables)
    replica_step = make_replica_step(
        model,
        optimizer,
        objective or token_objective(),
        clip_norm=clip_norm,
        accumulate=accumulate,
        jit_compile=jit_compile,
        average=average,
    )
    train = make_train_call(strategy, replica_step, dataset, initial_step, steps_per_call)
    callbacks = keras.callbacks.CallbackList(callbacks, model=model)
    callbacks.set_params({"epochs": 1, "steps": steps, "initial_step": initial_step})
    model.optimizer = optimizer
    model.stop_training = False
    step = initial_step
    callbacks.on_train_begin()
    with summing_once(optimizer), seeds_of_replicas(model, strategy), workers.together():
        while (steps is None or step < steps) and not agreement.stops():
            number = steps_per_call if steps is None else min(steps_per_call, steps - step)
            callbacks.on_train_batch_begin(step)
            with workers.waiting():
                total, count, applied, fault = map(np.asarray, train(number))
            step += int(applied)
            logs = _logs(float(total), float(count))
            if fault[0] != NONE:
                kind, *label_and_size = map(int, [fault[0], *workers.first_not_zero(fault[1:])])
                names = [variable.path for variable in model.trainable_variables]
                raise UserError(
                    why_not_applied(step + 1, kind, *label_and_size, logs["loss"], names)
                )
            callbacks.on_train_batch_end(step - 1, logs)
        agreement.require_same_weights()
    callbacks.on_train_end()
    return step


def _logs(total: float, count: float) -> dict[str, float]:
    return {"loss": total / count if count else 0.0, "tokens": count}
