"""How an objective is called, and what it may return."""

import functools
import inspect
import numbers
from collections.abc import Callable

import keras
import tensorflow as tf

from keras_attn.training.shares import number_of_rows


def call_objective(objective: Callable, model: keras.Model, batch, training: bool = True):
    """The sum and the count of an objective for a batch, float32 scalars.

    An objective with an argument `training` is told of it. One of two arguments, which calls the
    model as for training, is given a model in validation that is never called so.

    Raises:
        ValueError: if it returns anything else than a sum and a count.
    """
    if takes_training(objective):
        returned = _converted(objective)(model, batch, training=training)
    else:
        returned = _converted(objective)(model if training else _AtInference(model), batch)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        given = f"{len(returned)} values" if isinstance(returned, tuple | list) else repr(returned)
        raise ValueError(
            "An objective returns two numbers, a sum over the batch and the count of what it is a "
            f"sum of: write `return total, count`. Received: {given} from {_name(objective)}"
        )
    total, count = (
        _scalar(what, value, objective)
        for what, value in zip(("sum", "count"), returned, strict=True)
    )
    known = tf.get_static_value(count)
    if known is not None and known <= 0 and number_of_rows_if_known(batch) != 0:
        raise ValueError(
            "The count of an objective is how many tokens, rows or numbers its sum is over, more "
            f"than nothing. Received: count={known} from {_name(objective)}"
        )
    return tf.cast(total, tf.float32), tf.cast(count, tf.float32)


def takes_training(objective: Callable) -> bool:
    """Whether an objective has an argument `training`."""
    parameters = inspect.signature(objective).parameters.values()
    return any(
        parameter.name == "training" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    )


def number_of_rows_if_known(batch) -> int | None:
    """The static number of rows of a batch."""
    rows = tf.get_static_value(number_of_rows(batch))
    return None if rows is None else int(rows)


def _converted(objective: Callable) -> Callable:
    """The objective with AutoGraph, which must not turn the errors of its callers into its own."""
    return tf.__internal__.autograph.tf_convert(
        objective, tf.__internal__.autograph.control_status_ctx()
    )


def _scalar(what: str, value, objective: Callable) -> tf.Tensor:
    """A sum or a count as a tensor, or `ValueError`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        tensor = tf.convert_to_tensor(float(value) if is_number else value)
    except (TypeError, ValueError):
        tensor = None
    kinds = {"sum": "floating", "count": "floating or whole"}
    if tensor is None or not (
        tensor.dtype.is_floating or (what == "count" and tensor.dtype.is_integer)
    ):
        given = repr(value) if tensor is None else f"dtype {tensor.dtype.name}"
        raise ValueError(
            f"The {what} that an objective returns is a {kinds[what]} number. "
            f"Received: {what} of {given} from {_name(objective)}"
        )
    if tensor.shape.rank not in (0, None):
        raise ValueError(
            f"The {what} that an objective returns is one number for the whole batch: add it up "
            f"with tf.reduce_sum. Received: {what}.shape={tuple(tensor.shape)} "
            f"from {_name(objective)}"
        )
    return tensor if tensor.shape.rank == 0 else tf.ensure_shape(tensor, [])


def _name(objective: Callable) -> str:
    return getattr(objective, "__qualname__", type(objective).__name__)


class _AtInference:
    """A model as an objective of two arguments sees it in validation: `training` is False.

    It holds for calls of the model and of its methods and layers, whatever they are told.
    """

    def __init__(self, model: keras.Model):
        self._model = model

    def __call__(self, *args, **kwargs):
        return _never_training(self._model)(*args, **kwargs)

    def __getattr__(self, name: str):
        value = getattr(self._model, name)
        return _never_training(value) if callable(value) else value


def _never_training(function: Callable) -> Callable:
    """The function with `training=False`, if it has such an argument."""
    is_layer = isinstance(function, keras.Layer)
    signature = inspect.signature(function.call if is_layer else function)
    if "training" not in signature.parameters:
        return function if not is_layer else functools.partial(function, training=False)

    @functools.wraps(function)
    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.arguments.pop("training", None)
        return function(*bound.args, training=False, **bound.kwargs)

    return call
