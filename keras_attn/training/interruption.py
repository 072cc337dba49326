"""Stopping a run between two steps when a person or a scheduler asks for it."""

import os
import signal
import threading

import keras


class StopOnSignal(keras.callbacks.Callback):
    """Ends training after the running step at the first Ctrl-C, SIGTERM or SIGHUP.

    SIGHUP says that the terminal was closed: what would be shown there is dropped from then on.
    Where it is ignored, as under `nohup`, it stays ignored. A second signal acts at once, as it
    would have without this callback.

    Signals are the business of a process' main thread; where training runs in another, this
    callback does nothing.

    Attributes:
        received: the signal, or None.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     StopOnSignal, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> stopping = StopOnSignal()
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[stopping],
        ... )
        4
        >>> stopping.received is None
        True
    """

    def __init__(self):
        super().__init__()
        self.received: signal.Signals | None = None
        self._previous: dict = {}
        self._terminals: list[int] = []

    def on_train_begin(self, logs=None):
        if threading.current_thread() is not threading.main_thread():
            return
        self._terminals = [number for number in (1, 2) if _is_terminal(number)]
        for number in _signals():
            previous = signal.signal(number, self._stop)
            # None stands for a handler that Python cannot put back.
            self._previous[number] = signal.SIG_DFL if previous is None else previous

    def on_train_end(self, logs=None):
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _stop(self, number, frame):
        self.received = signal.Signals(number)
        self.model.stop_training = True
        self.on_train_end()
        if self.received.name == "SIGHUP":
            _forget(self._terminals)  # else writing to them fails before the checkpoint is written


def _signals() -> list[signal.Signals]:
    numbers = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # not there on Windows
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        numbers.append(hang_up)
    return numbers


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _forget(terminals: list[int]) -> None:
    """Let these standard streams lead nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in terminals:
        os.dup2(nowhere, number)
    os.close(nowhere)
