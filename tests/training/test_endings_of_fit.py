"""However a run ends, its callbacks are told, and they know of which step the weights are."""

import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import (
    Budget,
    Epochs,
    KeepCheckpoints,
    Pace,
    RunDirectory,
    StopOnSignal,
    fit,
    load_checkpoint,
    squared_error_objective,
)

OBJECTIVE = squared_error_objective()


def _model():
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


def _batches(number=None):
    x = tf.random.stateless_normal([4, 3], [1, 2])
    return tf.data.Dataset.from_tensors((x, x[:, :1])).repeat(number)


def _fit(batches, steps=9, callbacks=(), model=None, **arguments):
    options = {"optimizer": keras.optimizers.SGD(0.01), "objective": OBJECTIVE, **arguments}
    return fit(model or _model(), batches, steps, callbacks=callbacks, **options)


class Watch(keras.callbacks.Callback):
    """What it was told of, and the step of the weights when it was told of the end."""

    def __init__(self, raises=None):
        super().__init__()
        self.steps, self.ended, self.known = [], 0, "not ended"
        self._raises = raises

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append(batch)
        if self._raises == ("step", batch):
            raise RuntimeError("no disk")

    def on_train_begin(self, logs=None):
        if self._raises == "begin":
            raise RuntimeError("no disk")

    def on_train_end(self, logs=None):
        self.ended += 1
        self.known = self.params["step"]
        if self._raises == "end":
            raise RuntimeError("no disk")


def test_an_error_of_a_callback_ends_all_callbacks_after_the_same_step(tmp_path):
    """Also those behind it hear of the step, so that the last checkpoint is of the weights."""
    run, model, watch = RunDirectory(tmp_path), _model(), Watch()
    pace = Pace(Budget(steps=9), lambda used, step: 0.01)
    keeping = KeepCheckpoints(run, pace, lambda: {"score": 1.0}, 1)
    interruption = StopOnSignal()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError, match="no disk"):
        _fit(
            _batches(), callbacks=[interruption, Watch(("step", 2)), pace, keeping, watch],
            model=model,
        )  # fmt: skip
    assert signal.getsignal(signal.SIGTERM) is before
    assert (watch.steps, watch.ended, watch.known) == ([0, 1, 2], 1, 3)
    other = _model()
    assert load_checkpoint(run.last_checkpoint, other)["step"] == 3
    for got, expected in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_fails_at_the_end_hides_neither_the_others_nor_the_error():
    watch = Watch()
    with pytest.raises(RuntimeError, match="no disk"):
        _fit(_batches(), 2, [Watch("end"), watch])
    assert watch.ended == 1
    with pytest.raises(UserError, match="data ended before step 3") as caught:
        _fit(_batches(2), 9, [Watch("end"), watch])
    assert caught.value.__notes__ == ["Then Watch could not end: no disk"]
    assert (watch.ended, watch.known) == (2, 2)


def test_callbacks_that_have_begun_end_if_one_cannot_begin():
    first, last = Watch(), Watch()
    with pytest.raises(RuntimeError, match="no disk"):
        _fit(_batches(), callbacks=[first, Epochs(2, [Watch("begin")]), last])
    assert (first.ended, last.ended) == (1, 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), tf.errors.AbortedError(None, None, "gone")])
def test_an_error_of_no_known_step_is_told_as_such(error, monkeypatch):
    """After an interruption of a call nobody knows how many of its steps were applied."""

    def failing(*arguments):
        def train(number):
            raise error

        return train

    watch = Watch()
    monkeypatch.setattr(sys.modules[fit.__module__], "make_train_call", failing)
    with pytest.raises(type(error)):
        _fit(_batches(), callbacks=[watch])
    assert (watch.ended, watch.known) == (1, None)


@pytest.mark.parametrize("steps_per_call", [1, 4])
@pytest.mark.parametrize(("number", "initial_step"), [(6, 0), (0, 0), (6, 6), (6, 8)])
def test_data_that_end_are_a_sentence_with_the_step(number, initial_step, steps_per_call):
    watch = Watch()
    with pytest.raises(UserError) as caught:
        _fit(
            _batches(number), 10, [watch], initial_step=initial_step, steps_per_call=steps_per_call
        )
    reached = max(number, initial_step)
    assert str(caught.value).startswith(f"The data ended before step {reached + 1}: repeat them")
    assert str(caught.value).endswith(f"Received: steps=10, initial_step={initial_step}")
    assert watch.known == reached
    if reached > initial_step:
        assert watch.steps[-1] == reached - 1
    assert watch.ended == 1


@pytest.mark.parametrize("steps_per_call", [1, 4])
def test_a_batch_that_cannot_be_read_is_a_sentence_with_the_step(steps_per_call):
    def check(index, batch):
        tf.debugging.assert_less(index, tf.constant(5, tf.int64), message="row 17 is broken")
        return batch

    watch = Watch()
    with pytest.raises(UserError) as caught:
        _fit(_batches().enumerate().map(check), callbacks=[watch], steps_per_call=steps_per_call)
    which = "step 6" if steps_per_call == 1 else "one of the steps 5 to 8"
    assert str(caught.value).startswith(f"The batch of {which} could not be read")
    assert "row 17 is broken" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, tf.errors.InvalidArgumentError)
    assert watch.known == (5 if steps_per_call == 1 else None)


def test_an_objective_that_raises_leaves_weights_of_a_known_step():
    def objective(model, batch):
        raise RuntimeError("wrong")

    watch = Watch()
    with pytest.raises(RuntimeError, match="wrong"):
        _fit(_batches(), callbacks=[watch], objective=objective)
    assert (watch.ended, watch.known) == (1, 0)
