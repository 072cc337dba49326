"""Epochs of a run that has only steps, for the callbacks that live by them."""

import inspect
from collections.abc import Callable, Iterable, Mapping

import keras
import numpy as np

from keras_attn.training.callbacks_of_run import CallbacksOfRun


class Epochs(keras.callbacks.Callback):
    """Tells Keras callbacks of an epoch after every so many steps: early stopping, plateaus, logs.

    At the end of an epoch they get the mean `loss` over its tokens and what `validate` returns.
    It is what `fit(steps_per_epoch=...)` does for all its callbacks, for some of them alone, with a
    state that can be saved with a checkpoint. An epoch that the end of the training cuts short does
    not end: a session that goes on ends it. Under `multi_worker` every worker runs them, and
    validates, so that all decide alike.

    Args:
        steps: of an epoch.
        callbacks: Keras callbacks.
        validate: returns metrics by name, such as `val_loss`; or None.
        state: what an earlier session saved of `state`, so that an epoch that was interrupted and
            the patience of the callbacks go on.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import Epochs, fit, squared_error_objective
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=1, min_delta=100.0)
        >>> fit(
        ...     model, batches, 100, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[Epochs(5, [stopping])],
        ... )
        10
    """

    def __init__(
        self,
        steps: int,
        callbacks: Iterable[keras.callbacks.Callback],
        validate: Callable[[], dict[str, float]] | None = None,
        state: Mapping[str, float | np.ndarray] | None = None,
    ):
        super().__init__()
        self._steps = steps
        self._callbacks = list(callbacks)
        self._validate = validate or dict
        self._saved = dict(state or {})
        self._told: CallbacksOfRun | None = None

    @property
    def state(self) -> dict[str, float | np.ndarray]:
        """The sums of the epoch so far, and the numbers and arrays that the callbacks hold."""
        state = {"epoch/total": 0.0, "epoch/count": 0.0}
        if self._told is not None:
            state = {"epoch/total": self._told.total, "epoch/count": self._told.count}
        for index, callback in enumerate(self._callbacks):
            # What it was made with is no state: EarlyStopping turns the sign of its `min_delta`.
            settings = inspect.signature(type(callback)).parameters
            for name, value in vars(callback).items():
                if name not in settings:
                    state.update(_numbers(f"epoch/{index}/{name}", value))
        return state

    def on_train_begin(self, logs=None):
        params = {**self.params, "steps": self._steps}
        self._told = CallbacksOfRun(
            self._callbacks, self.model, params, self._steps, lambda tell: self._validate()
        )
        self._told.begin()
        self._restore()

    def on_train_batch_begin(self, batch, logs=None):
        self._told.begin_step(batch)

    def on_train_batch_end(self, batch, logs=None):
        self._told.end_step(batch, logs)

    def on_train_end(self, logs=None):
        self._told.end()

    def _restore(self):
        """Put back what `state` held, after `on_train_begin` has reset the callbacks."""
        self._told.total = self._saved.pop("epoch/total", 0.0)
        self._told.count = self._saved.pop("epoch/count", 0.0)
        for index, callback in enumerate(self._callbacks):
            prefix = f"epoch/{index}/"
            saved = {
                key.removeprefix(prefix): value
                for key, value in self._saved.items()
                if key.startswith(prefix)
            }
            vars(callback).update(_without_lists(saved, vars(callback)))
        self._saved.clear()


def _numbers(key: str, value) -> dict[str, float | np.ndarray]:
    """A number, an array or a list of arrays by names; nothing for what is none of these."""
    if isinstance(value, bool | int | float | np.number | np.ndarray):
        return {key: value}
    if isinstance(value, list) and value and all(isinstance(x, np.ndarray) for x in value):
        return {f"{key}/{index}": array for index, array in enumerate(value)}
    return {}


def _without_lists(saved: dict, current: dict) -> dict:
    """Attributes from names: `x/0`, `x/1` become the list `x`, numbers have the type they had."""
    attributes = {}
    for key, value in saved.items():
        name, _, index = key.partition("/")
        if index:
            attributes.setdefault(name, []).append(np.asarray(value))
        elif isinstance(current.get(name), bool | int):
            attributes[name] = type(current[name])(value)
        else:
            attributes[name] = value
    return attributes
