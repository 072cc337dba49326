"""Weights of a model that has none yet, from the shapes of the batches it will be trained on."""

from collections.abc import Callable

import keras
import tensorflow as tf

from keras_attn.training.objective_call import call_objective


def build_from_batches(
    model: keras.Model,
    objective: Callable,
    dataset: tf.data.Dataset,
    strategy: tf.distribute.Strategy,
) -> None:
    """Give weights to the layers that have none, in the scope of a strategy.

    The objective is traced once on batches of the dataset's specification, which tells their
    shapes: nothing is computed, and no batch is taken out of the dataset. A model that is whole is
    left alone.

    Raises:
        ValueError: if the model has no weights after it, or lacks those of a layer.
    """
    if _is_whole(model):
        return
    before = model.built
    error = None
    try:
        with strategy.scope():
            _Traced(objective, model, dataset.element_spec).compute_output_spec()
    except Exception as raised:
        error = raised
    is_trainable = model.trainable_variables and (before or _is_whole(model))
    if error is not None and not is_trainable:  # else training itself meets the error
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ValueError(
            "The model has no weights yet and could not be built from the batches, whose shapes "
            f"are {_shapes(dataset.element_spec)}: call it once, or give it a keras.Input. "
            f"Received: model={model.name}, of which building says: {reason}"
        ) from error


class _Traced(keras.Operation):
    """An objective as Keras traces it: weights are made, and nothing else is changed."""

    def __init__(self, objective: Callable, model: keras.Model, spec):
        super().__init__()
        self._arguments = objective, model, spec

    def call(self):
        objective, model, spec = self._arguments
        return call_objective(objective, model, _placeholders(spec))


def _is_whole(model: keras.Model) -> bool:
    return all(layer.built for layer in model._flatten_layers())


def _placeholders(spec):
    def placeholder(part: tf.TensorSpec):
        return tf.compat.v1.placeholder(part.dtype, part.shape)

    return tf.nest.map_structure(placeholder, spec, expand_composites=True)


def _shapes(spec) -> str:
    """The shapes of the parts of a batch, for a person to read."""
    shapes = [part.shape for part in tf.nest.flatten(spec, expand_composites=True)]
    return " and ".join("unknown" if shape.rank is None else str(tuple(shape)) for shape in shapes)
