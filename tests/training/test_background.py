"""Files are written beside the training, in order, and what fails is told."""

import threading

import pytest

from keras_attn.errors import UserError
from keras_attn.training.background import BackgroundWriter


def test_a_write_goes_on_beside_the_caller_and_the_next_one_waits_for_it():
    writer, may_end, written = BackgroundWriter(), threading.Event(), []

    def first():
        may_end.wait(10)
        written.append(1)

    writer.submit(first)
    assert written == []
    threading.Timer(0.05, may_end.set).start()
    writer.submit(lambda: written.append(2))
    assert written[0] == 1
    writer.wait()
    assert written == [1, 2]
    assert 0.04 < writer.longest < 10


def test_what_a_write_raised_is_raised_once_in_the_thread_that_asked():
    def fail():
        raise UserError("Cannot write.")

    writer = BackgroundWriter()
    writer.submit(fail)
    with pytest.raises(UserError, match=r"Cannot write\."):
        writer.wait()
    assert writer.failed
    writer.wait()
    writer.submit(lambda: None)
    writer.wait()
    assert not writer.failed
