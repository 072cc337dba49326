import os
import signal

import keras
import pytest

from keras_attn.training import StopOnSignal


class _Model:
    stop_training = False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    callback = StopOnSignal()
    callback.set_model(_Model())
    callback.on_train_begin()
    assert signal.getsignal(number) != before
    os.kill(os.getpid(), number)
    assert callback.received == number
    assert callback.model.stop_training
    assert signal.getsignal(number) == before  # a second signal acts at once
    callback.on_train_end()
    assert signal.getsignal(number) == before


def test_without_a_signal_nothing_changes():
    before = signal.getsignal(signal.SIGINT)
    callback = StopOnSignal()
    callback.set_model(keras.Sequential())
    callback.on_train_begin()
    callback.on_train_end()
    assert callback.received is None
    assert signal.getsignal(signal.SIGINT) == before
