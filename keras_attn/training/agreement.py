"""What the workers of a training must have in common, and when it is compared."""

import json
import zlib
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from keras_attn.protocols import SupportsSavedStep
from keras_attn.training.worker_batches import are_parts
from keras_attn.training.workers import Workers
from keras_attn.version import __version__


class Agreement:
    """Compares workers before their first step, at their first step and at every checkpoint.

    Of one process nothing is computed or asked.

    Args:
        workers: that train together.
        model: what they train.
        callbacks: of this worker; a `SupportsSavedStep` tells of checkpoints.
    """

    def __init__(
        self,
        workers: Workers,
        model: keras.Model,
        callbacks: Iterable[keras.callbacks.Callback],
    ):
        self._workers = workers
        self._model = model
        self._keeping = [
            callback for callback in callbacks if isinstance(callback, SupportsSavedStep)
        ]
        self._compared = None

    def require_same_training(
        self, dataset: tf.data.Dataset, optimizer, objective: Callable | None, **settings
    ) -> None:
        """Raise `UserError` in all workers unless they are about to train the same."""
        if self._workers.number == 1:
            return
        identity = dataset.identity if are_parts(dataset) else {}
        versions = {"keras": keras.__version__, "tensorflow": tf.__version__}
        values = {
            **settings,
            **{f"version of {name}": version for name, version in versions.items()},
            "version of keras_attn": __version__,
            "optimizer": type(optimizer).__name__,
            **_described("optimizer", optimizer),
            "objective": getattr(objective, "__qualname__", type(objective).__name__),
            "kind of data": "seekable" if are_parts(dataset) else "whole batches",
            "form of a batch": dataset.element_spec,
            **{f"data {name}": value for name, value in identity.items()},
        }
        variables = self._model.variables
        self._workers.require_same(
            "model",
            {
                "number of variables": len(variables),
                **{f"variable {index}": form_of(v) for index, v in enumerate(variables)},
                **_layers(self._model),
            },
        )
        self._workers.require_same("settings and data", values)

    def stops(self) -> bool:
        """Whether a worker wants to stop; weights are compared if there is a new checkpoint.

        Raises:
            UserError: in all workers, if their weights differ.
        """
        saved = max((callback.saved_step for callback in self._keeping), default=0)
        if self._compared is None:
            self._compared = saved
            self.require_same_weights()
        stop, is_new = self._workers.which([self._model.stop_training, saved > self._compared])
        if is_new:
            self._compared = saved
            self.require_same_weights()
        return stop

    def require_same_weights(self) -> None:
        """Raise `UserError` in all workers if their weights differ."""
        if self._workers.number == 1:
            return
        digests = {
            f"{index}, {weight.path}," if index == 0 else f"{index}": _digest(weight)
            for index, weight in enumerate(self._model.weights)
        }
        self._workers.require_same("weights", digests)


def form_of(variable) -> str:
    """Shape and dtype of a variable of Keras or TensorFlow."""
    return f"{tuple(variable.shape)} {tf.as_dtype(variable.dtype).name}"


def _digest(weight) -> str:
    content = np.ascontiguousarray(weight.numpy())
    return f"{zlib.crc32(content.view(np.uint8).reshape(-1)):08x}"


def _layers(model: keras.Model) -> dict[str, str]:
    """What each layer that holds no other was made with, but its name."""
    found = {}
    for index, layer in enumerate(model._flatten_layers()):
        if list(layer._flatten_layers(include_self=False, recursive=False)):
            continue
        found.update(_described(f"layer {index} ({type(layer).__name__})", layer))
    return found


def _described(name: str, configured) -> dict[str, str]:
    """The entries of a configuration that are numbers, words or lists of them."""
    try:
        config = configured.get_config()
    except NotImplementedError:
        return {}
    return {
        f"{name} {key}": json.dumps(_plain(value), sort_keys=True)
        for key, value in config.items()
        if key != "name"
    }


def _plain(value):
    """As JSON holds it, without names, which count what was made before; of the rest, the type."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items() if key != "name"}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | bool | int | float | type(None)):
        return value
    return float(value) if isinstance(value, np.number) else type(value).__name__
