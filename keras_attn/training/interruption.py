"""Stopping a run between two steps when a person or a scheduler asks for it."""

import signal

import keras


class StopOnSignal(keras.callbacks.Callback):
    """Ends training after the running step at the first Ctrl-C or SIGTERM.

    A second signal acts at once, as it would have without this callback.

    Attributes:
        received: the signal, or None.
    """

    def __init__(self):
        super().__init__()
        self.received: signal.Signals | None = None
        self._previous: dict = {}

    def on_train_begin(self, logs=None):
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._stop)

    def on_train_end(self, logs=None):
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _stop(self, number, frame):
        self.received = signal.Signals(number)
        self.model.stop_training = True
        self.on_train_end()
