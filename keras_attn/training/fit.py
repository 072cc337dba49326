"""The training loop."""

from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from keras_attn.training.objectives import token_objective


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
) -> int:
    """Train a model from step `initial_step` to `steps` and return the step that was reached.

    Each step minimises `sum / count` of the objective over the whole batch, the gradient clipped to
    a global norm of `clip_norm` before the optimiser sees it.

    Args:
        model: any Keras model.
        dataset: endless batches; those of the first `initial_step` steps are skipped, so that a
            run which continues sees the batches it would have seen.
        steps: the step at which training ends; None if a callback ends it.
        optimizer: a Keras optimiser.
        objective: `objective(model, batch) -> (sum, count)`; `token_objective()` by default.
        clip_norm: the largest norm of the gradient, or None.
        initial_step: steps already done.
        callbacks: Keras callbacks; they see one epoch of `steps` batches, and may set
            `model.stop_training`.

    Example:
        >>> fit(model, batches, steps=1000, optimizer=keras.optimizers.Adam(1e-3), clip_norm=1.0)
        1000
    """
    objective = objective or token_objective()
    train_step = make_train_step(model, optimizer, objective, clip_norm, dataset.element_spec)
    callbacks = keras.callbacks.CallbackList(list(callbacks), model=model)
    callbacks.set_params({"epochs": 1, "steps": steps, "initial_step": initial_step})
    model.optimizer = optimizer
    model.stop_training = False
    step = initial_step
    callbacks.on_train_begin()
    batches = iter(dataset.skip(initial_step))
    while (steps is None or step < steps) and not model.stop_training:
        callbacks.on_train_batch_begin(step)
        total, count = train_step(next(batches))
        logs = {"loss": float(total) / max(float(count), 1.0), "tokens": float(count)}
        callbacks.on_train_batch_end(step, logs)
        step += 1
    callbacks.on_train_end()
    return step


def make_train_step(model, optimizer, objective, clip_norm, batch_spec) -> Callable:
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(input_signature=[batch_spec])
    def train_step(batch):
        with tf.GradientTape() as tape:
            total, count = objective(model, batch)
            loss = total / tf.maximum(count, 1.0)
        # Dense, for the norm of the slices of an embedding counts a token that occurs twice as two.
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
        optimizer.apply(gradients, variables)
        return total, count

    return train_step
