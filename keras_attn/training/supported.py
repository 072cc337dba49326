"""What training refuses, because it would not be what it seems."""

import keras
import tensorflow as tf


def require_supported(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    accumulate: int,
    jit_compile: bool,
) -> None:
    """Raise `ValueError` if this model cannot be trained exactly in this way."""
    if accumulate < 1:
        raise ValueError(f"Rows are cut into 1 part or more. Received: accumulate={accumulate}")
    require_built(model)
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    _require_plain(inner)
    _require_made_for(model, inner)
    _require_loss_scale(model, optimizer, inner)
    _require_made_in_scope(model, inner, strategy)
    _require_whole_batch_statistics(model, strategy, accumulate, jit_compile)


def require_built(model: keras.Model) -> None:
    """Raise `ValueError` for a model without weights: it would be trained or saved as nothing."""
    if not model.built:
        raise ValueError(
            "The model has no weights yet: call it once, or give it a keras.Input. "
            f"Received: model={model.name}"
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
