"""What training refuses, because it would not be what it seems."""

import math
import numbers
from importlib.util import find_spec

import keras
import tensorflow as tf

from keras_attn.protocols import LossScaler
from keras_attn.training.penalties import RULES


def require_options(
    *,
    steps: int | None,
    initial_step: int,
    accumulate: int,
    steps_per_call: int,
    steps_per_epoch: int | None,
    clip_norm: float | None,
    added_losses: str | None,
) -> None:
    """Raise `ValueError` if one of the numbers of `fit` is none that it can work with."""
    _require_whole("initial_step", initial_step, 0, "the steps that are already done")
    if steps is not None:
        _require_whole("steps", steps, 0, "the step at which training ends, or None")
        if steps < initial_step:
            raise ValueError(
                "Training ends at a step that lies before its first one: steps counts those of "
                f"earlier sessions too. Received: steps={steps}, initial_step={initial_step}"
            )
    _require_whole("accumulate", accumulate, 1, "the parts that rows are cut into")
    _require_whole("steps_per_call", steps_per_call, 1, "the steps between two calls of callbacks")
    if steps_per_epoch is not None:
        _require_whole("steps_per_epoch", steps_per_epoch, 1, "the steps of an epoch, or None")
    if clip_norm is not None and not (
        isinstance(clip_norm, numbers.Real) and 0 < clip_norm < math.inf
    ):
        raise ValueError(
            "The largest norm of a gradient is a positive number, or None: with 0 nothing would "
            f"be learned. Received: clip_norm={clip_norm!r}"
        )
    if added_losses not in (None, *RULES):
        raise ValueError(
            f"Losses that layers add are combined by one of {', '.join(RULES)}, or None. "
            f"Received: added_losses={added_losses!r}"
        )


def _require_whole(name: str, value, least: int, meaning: str) -> None:
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(
            f"{name} is a whole number of {least} or more: {meaning}. Received: {name}={value!r}"
        )


def require_callback(
    callback: keras.callbacks.Callback, optimizer: keras.optimizers.Optimizer
) -> None:
    """Raise `ValueError` if a callback cannot do in `fit` what it does in `keras.Model.fit`."""
    name = type(callback).__name__
    if not isinstance(callback, keras.callbacks.Callback):
        raise ValueError(
            "Callbacks are objects of keras.callbacks.Callback: derive yours from it. "
            f"Received: callback={callback!r}"
        )
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        raise ValueError(
            "BackupAndRestore begins an epoch again: use training.KeepCheckpoints in a "
            "training.RunDirectory, and training.resume, which goes on at the very step. "
            f"Received: callback={name}"
        )
    if isinstance(callback, keras.callbacks.SwapEMAWeights):
        raise ValueError(
            "Weights are averaged by fit(average=WeightAverage(model)), and lent for validation by "
            f"average.applied(). Received: callback={name}"
        )
    if isinstance(callback, keras.callbacks.TensorBoard) and not find_spec("tensorboard"):
        raise ValueError(
            "Keras' TensorBoard callback needs a package that is not here: run pip install "
            "tensorboard, or use training.TensorBoardCurves, which needs none. "
            f"Received: callback={name} without the package tensorboard"
        )
    setters = keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau
    if isinstance(callback, setters):
        require_rate_that_can_be_set(optimizer, name)


def require_rate_that_can_be_set(optimizer: keras.optimizers.Optimizer, name: str) -> None:
    """Raise `ValueError` if an optimiser has a schedule of its own beside a callback's."""
    inner = _inner_of(optimizer)
    schedule = getattr(inner, "_learning_rate", None)
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        raise ValueError(
            f"{name} sets the learning rate, which the optimiser takes from a schedule: make the "
            "optimiser with a number, or leave this callback out. "
            f"Received: learning_rate={type(schedule).__name__} of optimizer {inner.name}"
        )


def require_supported(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    accumulate: int,
    jit_compile: bool,
) -> None:
    """Raise `ValueError` if this model cannot be trained exactly in this way."""
    require_built(model)
    _require_something_to_train(model)
    inner = _inner_of(optimizer)
    _require_plain(inner)
    _require_made_for(model, inner)
    _require_loss_scale(model, optimizer, inner)
    _require_made_in_scope(model, inner, strategy)
    _require_whole_batch_statistics(model, strategy, accumulate, jit_compile)
    _require_finite(model)


def require_built(model: keras.Model) -> None:
    """Raise `ValueError` for a model without weights: it would be trained or saved as nothing."""
    if not model.built:
        raise ValueError(
            "The model has no weights yet: call it once, or give it a keras.Input. "
            f"Received: model={model.name}"
        )


def _require_something_to_train(model: keras.Model) -> None:
    if not model.trainable_variables:
        what = "are all frozen" if model.variables else "are none"
        raise ValueError(
            f"There is nothing to train, for the model's weights {what}: set `trainable = True` on "
            "the layers that shall learn, or give the model such layers. "
            f"Received: model={model.name} without trainable weights"
        )


def _require_finite(model: keras.Model) -> None:
    """Refuse weights that no step can mend; a constant of a layer may be infinite."""
    trained = {id(variable) for variable in model.trainable_variables}
    for variable in model.variables:
        value = tf.convert_to_tensor(variable.value)
        if not value.dtype.is_floating:
            continue
        is_broken = ~tf.math.is_finite(value) if id(variable) in trained else tf.math.is_nan(value)
        if tf.reduce_any(is_broken):
            raise ValueError(
                "A weight of the model is not finite before the first step: load a checkpoint from "
                f"before it broke, or build the model anew. Received: model={model.name} with "
                f"{variable.path}"
            )


def _require_plain(optimizer) -> None:
    """Refuse what Keras' optimisers do in every call of a replica, and strategies do not run."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(
            "Training needs an optimiser of keras.optimizers, which adds gradients over replicas. "
            f"Received: optimizer={optimizer}"
        )
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            "Gradients are accumulated by fit(accumulate=...), which weights them by their tokens. "
            f"Received: gradient_accumulation_steps={optimizer.gradient_accumulation_steps}"
        )
    if optimizer.use_ema:
        raise ValueError(
            "Weights are averaged by fit(average=WeightAverage(model)). Received: use_ema=True"
        )


def _require_made_for(model, optimizer) -> None:
    if not optimizer.built:
        return
    known = {id(variable) for variable in optimizer._trainable_variables}
    for variable in model.trainable_variables:
        if id(variable) not in known:
            raise ValueError(
                "The optimiser was built for other variables, those of another model or those that "
                "were trainable then: make a new one. "
                f"Received: optimizer={optimizer.name} without {variable.path}"
            )


def _inner_of(optimizer):
    return optimizer.inner_optimizer if isinstance(optimizer, LossScaler) else optimizer


def _require_loss_scale(model, optimizer, inner) -> None:
    scaled = optimizer is not inner or inner.loss_scale_factor is not None
    if not scaled and any(layer.compute_dtype == "float16" for layer in _layers(model)):
        raise ValueError(
            "Gradients in float16 vanish unless the loss is scaled: wrap the optimiser in "
            f"keras.optimizers.LossScaleOptimizer. Received: optimizer={optimizer.name}"
        )


def _require_made_in_scope(model, optimizer, strategy) -> None:
    for what, variable in [
        *(("model", variable) for variable in model.variables),
        ("optimizer", optimizer.iterations),
    ]:
        if not strategy.extended.variable_created_in_scope(variable.value):
            raise ValueError(
                f"Make the {what} in the scope of the strategy: `with strategy.scope():`. "
                f"Received: {what} with {variable.path} made outside of {type(strategy).__name__}"
            )


def _require_whole_batch_statistics(model, strategy, accumulate, jit_compile) -> None:
    """Batch normalisation sees the whole batch only if it is synchronised, and in one part."""
    replicas = strategy.num_replicas_in_sync
    for layer in _layers(model):
        if not isinstance(layer, keras.layers.BatchNormalization) or not layer.trainable:
            continue
        if accumulate > 1:
            raise ValueError(
                "Batch normalisation of a part of a batch is not that of the batch: leave "
                f"accumulate at 1. Received: accumulate={accumulate} and layer {layer.name}"
            )
        if replicas > 1 and (jit_compile or not layer.synchronized):
            raise ValueError(
                "Each replica would normalise by its own rows: make the layer with "
                "BatchNormalization(synchronized=True), and train with jit_compile=False. "
                f"Received: layer {layer.name} on {replicas} replicas"
            )


def _layers(model) -> list[keras.layers.Layer]:
    return list(model._flatten_layers())
