"""Weights of a model that has none yet, from the shapes of the batches it will be trained on."""

import re
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
    traced = _Traced(objective, model, dataset.element_spec)
    try:
        with strategy.scope():
            traced.compute_output_spec()
        error = None
    except Exception as raised:
        error = traced.error or raised
    is_trainable = model.trainable_variables and (before or _is_whole(model))
    if error is not None and not is_trainable:  # else training itself meets the error
        raise ValueError(
            "The model has no weights yet and could not be built from the batches, whose shapes "
            f"are {_shapes(dataset.element_spec)}: call it once, or give it a keras.Input. "
            f"Received: model={model.name}, of which building says: {_reason(error)}"
        ) from error


class _Traced(keras.Operation):
    """An objective as Keras traces it: weights are made, and nothing else is changed."""

    def __init__(self, objective: Callable, model: keras.Model, spec):
        super().__init__()
        self._arguments = objective, model, spec
        self.error: Exception | None = None  # which Keras hides in one of its own

    def call(self):
        objective, model, spec = self._arguments
        try:
            return call_objective(objective, model, _placeholders(spec))
        except Exception as error:
            self.error = error
            raise


def _is_whole(model: keras.Model) -> bool:
    return all(layer.built for layer in model._flatten_layers())


def _reason(error: Exception) -> str:
    """The sentence of an error, around which Keras and AutoGraph tell where it was raised."""
    told = str(error).strip()
    bold = re.search(r"\x1b\[1m(.+?)\x1b\[0m", told)  # of Keras
    lines = [bold[1]] if bold else told.splitlines()
    return lines[-1 if told.startswith("in user code") else 0].strip().rstrip(".")


def _placeholders(spec):
    def placeholder(part: tf.TensorSpec):
        if not isinstance(part, tf.TensorSpec):
            return None  # a part that is not there, such as no mask
        return tf.compat.v1.placeholder(part.dtype, part.shape)

    return tf.nest.map_structure(placeholder, spec, expand_composites=True)


def _shapes(spec) -> str:
    """The shapes of the parts of a batch, for a person to read."""
    parts = tf.nest.flatten(spec, expand_composites=True)
    shapes = [part.shape for part in parts if isinstance(part, tf.TensorSpec)]
    return " and ".join("unknown" if shape.rank is None else str(tuple(shape)) for shape in shapes)
