import os
import signal
import sys
import threading

import keras
import pytest

from keras_attn.training import StopOnSignal


class _Model:
    stop_training = False


@pytest.fixture(autouse=True)
def _hang_ups_are_heard():
    """Also where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_a_hang_up_that_is_ignored_stays_ignored():
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        callback = StopOnSignal()
        callback.set_model(_Model())
        callback.on_train_begin()
        os.kill(os.getpid(), signal.SIGHUP)
        callback.on_train_end()
        assert callback.received is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_is_no_error_for_what_is_printed_after_it():
    """The terminal of a child: it is told that it hangs up, and goes on printing."""
    import pty

    child, terminal = pty.fork()
    if child == 0:
        code = 1
        try:
            callback = StopOnSignal()
            callback.set_model(_Model())
            callback.on_train_begin()
            os.write(1, b"ready")
            while callback.received is None:
                signal.pause()
            os.write(1, b"lost")
            os.write(2, b"lost")
            sys.stderr.flush()
            code = 0
        finally:
            os._exit(code)
    assert os.read(terminal, 5) == b"ready"
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0


def test_another_thread_than_the_main_one_trains_without_signals():
    callback = StopOnSignal()
    callback.set_model(_Model())
    before, errors = signal.getsignal(signal.SIGINT), []

    def begin_and_end():
        try:
            callback.on_train_begin()
            callback.on_train_end()
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=begin_and_end)
    thread.start()
    thread.join()
    assert errors == []
    assert signal.getsignal(signal.SIGINT) == before
