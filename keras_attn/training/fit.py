"""The training loop."""

import math
from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from keras_attn.training.agreement import Agreement
from keras_attn.training.building import build_from_batches
from keras_attn.training.callbacks_of_run import CallbacksOfRun
from keras_attn.training.dropout_seeds import seeds_of_replicas
from keras_attn.training.loop import Loop
from keras_attn.training.objectives import token_objective
from keras_attn.training.penalties import losses_of_threads
from keras_attn.training.replica_step import make_replica_step, summing_once
from keras_attn.training.supported import require_options, require_supported
from keras_attn.training.train_step import make_train_call
from keras_attn.training.validation import make_validation
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
    steps_per_epoch: int | None = None,
    validation_data: tf.data.Dataset | None = None,
    skip_not_finite: bool = False,
    added_losses: str | None = None,
) -> int:
    """Train a model from step `initial_step` to `steps` and return the step that was reached.

    Each step minimises `sum / count` of the objective over the whole batch (plus the model's own
    losses, such as regularisers, see `added_losses`), the gradient clipped to a global norm of
    `clip_norm` before the optimiser sees it. Under a strategy the rows of every batch are dealt out
    to the replicas; the sums, counts and gradients of all of them are added before anything is
    divided or clipped, so that the weights are those of one device with the same batches, to
    rounding.

    A step whose loss or gradient is not finite, or with a label outside of the vocabulary, is not
    applied and ends the training: weights, optimiser and the states of layers stay as they were
    before it, as does the last checkpoint. It is so on every path, with XLA and without, and only
    what makes a scaled loss overflow is left to the `LossScaleOptimizer`, which skips the step.

    However the training ends, `on_train_end` of every callback is called. `self.params["step"]` is
    then the step that the weights are of, or None where an error left them between two steps.

    Args:
        model: any Keras model, made in the scope of the strategy. Layers without weights are built
            from the shapes of the batches.
        dataset: endless batches; those of the first `initial_step` steps are skipped, so that a
            run which continues sees the batches it would have seen. `data.seekable.SeekableBatches`
            begin at that step at once, and every worker reads its own rows of them; of another
            dataset every worker is given the same batches, reads them whole and takes its own rows.
        steps: the step at which training ends; None if a callback ends it.
        optimizer: a Keras optimiser, made in the scope of the strategy. For float16 layers a
            `keras.optimizers.LossScaleOptimizer`.
        objective: `objective(model, batch, training=True) -> (sum, count)`; `token_objective()` by
            default. It may also have the first two arguments alone: in validation its calls of the
            model and of the model's methods are then turned to `training=False`.
        clip_norm: the largest norm of the gradient, or None.
        initial_step: steps already done.
        callbacks: Keras callbacks, which work as in `keras.Model.fit` and may set
            `model.stop_training`. The logs of a step are its mean `loss`, its `tokens` and the
            `gradient_norm` before clipping; those of an epoch its mean `loss` over tokens and
            `val_loss`. All workers call them, with the same numbers; all stop after the step at
            which one of them is told to.
        strategy: of `make_strategy`; by default the one in whose scope this is called.
        accumulate: parts that each replica's rows are cut into, which it works on one after the
            other: the result of the whole batch in the memory of a part.
        average: a moving average of the weights that is kept beside them, or None.
        steps_per_call: training steps for each call of the callbacks, one after the other on the
            devices; they are called with the mean of these steps, and with the number of the last.
        jit_compile: whether XLA compiles loss and gradient, once for each shape of batch.
        steps_per_epoch: the steps after which the callbacks are told of the end of an epoch, also
            those of a session that goes on; None if all steps are one epoch. An epoch that the end
            of the training cuts short ends with it.
        validation_data: batches with an end; `val_loss` is the objective over all of them, with
            `training=False`, at the end of every epoch.
        skip_not_finite: go on after a step whose loss or gradient is not finite. It is not applied,
            has a number and a batch of its own, and enters no mean; logs hold how many were
            `skipped` so far, and a warning at the end says so.
        added_losses: what a layer's `add_loss` gives: a "sum" or a "mean" over rows. It must be
            said if a batch is worked on in several parts, on replicas or by `accumulate`.

    Raises:
        ValueError: if the strategy cannot train this model or optimiser exactly, or an argument or
            what the objective returns makes no sense; the sentence says why and what to do.
        UserError: if a step was not applied; the sentence names the step and what was not finite,
            or the label and the size of the vocabulary. If the data end or cannot be read. If
            another worker does not answer any more, or has other batches, settings or weights; the
            sentence says what differs.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import fit, squared_error_objective
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> fit(
        ...     model, batches, steps=10, optimizer=keras.optimizers.Adam(1e-3),
        ...     objective=squared_error_objective(), clip_norm=1.0,
        ... )
        10
    """
    require_options(
        steps=steps,
        initial_step=initial_step,
        accumulate=accumulate,
        steps_per_call=steps_per_call,
        steps_per_epoch=steps_per_epoch,
        clip_norm=clip_norm,
        added_losses=added_losses,
    )
    strategy = strategy or tf.distribute.get_strategy()
    objective = objective or token_objective()
    build_from_batches(model, objective, dataset, strategy)
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
            steps_per_epoch=steps_per_epoch,
            validation_data=validation_data is not None,
            skip_not_finite=skip_not_finite,
            added_losses=added_losses,
        )
    if not optimizer.built:
        with strategy.scope():
            optimizer.build(model.trainable_variables)
    replica_step = make_replica_step(
        model,
        optimizer,
        objective,
        clip_norm=clip_norm,
        accumulate=accumulate,
        jit_compile=jit_compile,
        average=average,
        skip_not_finite=skip_not_finite,
        added_losses=added_losses,
    )
    validate = _nothing
    if validation_data is not None:
        validate = make_validation(strategy, model, objective, validation_data, workers)
    train = make_train_call(strategy, replica_step, dataset, initial_step, steps_per_call)
    model.optimizer = optimizer
    model.stop_training = False
    params = _params(steps, initial_step, steps_per_epoch)
    told = CallbacksOfRun(callbacks, model, params, steps_per_epoch, validate)
    loop = Loop(model, train, told, params, workers, agreement.stops, skip_not_finite)
    told.begin()
    error = None
    try:
        with (
            summing_once(optimizer),
            seeds_of_replicas(model, strategy),
            workers.together(),
            losses_of_threads(model),
        ):
            loop.run(steps, steps_per_call)
            agreement.require_same_weights()
    except BaseException as raised:
        error = raised
    told.end(error)
    loop.warn_of_skipped()
    return loop.step


def _params(steps: int | None, initial_step: int, steps_per_epoch: int | None) -> dict:
    """What callbacks find in `self.params`: Keras' own three, and where the run is."""
    epochs = math.ceil(steps / steps_per_epoch) if steps and steps_per_epoch else 1
    return {
        "epochs": epochs,
        "steps": steps_per_epoch or steps,
        "verbose": 1,
        "total_steps": steps,
        "initial_step": initial_step,
        "step": initial_step,
    }


def _nothing(tell) -> dict[str, float]:
    return {}
