"""Keras' callbacks have the effects in `fit` that they have in `keras.Model.fit`."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_attn.training import (
    Epochs,
    KeepCheckpoints,
    Pace,
    ProgressBar,
    fit,
    squared_error_objective,
)

callbacks = keras.callbacks
EPOCH = 5  # steps


def _data(rows, seed):
    x = np.random.default_rng(seed).normal(size=(rows, 3)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x @ [[2.0], [1.0], [0.0]] + 1.0)).map(
        lambda x, y: (x, tf.cast(y, tf.float32))
    )


TRAINING, VALIDATION = _data(20, 0).batch(4), _data(7, 1).batch(3)


def _model():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(4, activation="tanh")(inputs))
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def _of_keras(given, epochs, rate=0.1):
    model = _model()
    model.compile(keras.optimizers.SGD(rate), loss="mse")
    model.fit(TRAINING, epochs=epochs, validation_data=VALIDATION, callbacks=given, verbose=0)
    return model


def _of_ours(given, epochs, rate=0.1, **arguments):
    model = _model()
    options = {
        "objective": squared_error_objective(), "steps_per_epoch": EPOCH,
        "optimizer": keras.optimizers.SGD(rate), "validation_data": VALIDATION, **arguments,
    }  # fmt: skip
    fit(model, TRAINING.repeat(), EPOCH * epochs, callbacks=given, **options)
    return model


def _assert_same_weights(one, other):
    for got, expected in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


class Heard(callbacks.Callback):
    """The names of the events that it was told of."""

    def __init__(self):
        super().__init__()
        self.events = []

    def __getattribute__(self, name):
        if not name.startswith("on_") or ("batch" in name and "train" not in name):
            return super().__getattribute__(name)
        return lambda *arguments, **_: self.events.append(name)


def test_files_events_and_history_are_those_of_keras(tmp_path, capsys):
    runs = {"keras": _of_keras, "ours": _of_ours}
    histories, events, numbers = [], [], []
    for name, train in runs.items():
        home, heard, history = tmp_path / name, Heard(), callbacks.History()
        batches = callbacks.LambdaCallback(on_batch_begin=lambda batch, logs: None)
        watch = callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, name=name: numbers.append((name, batch))
        )
        home.mkdir()
        train(
            [
                callbacks.ModelCheckpoint(home / "epoch-{epoch}-{val_loss:.2f}.keras"),
                callbacks.ModelCheckpoint(home / "batch-{epoch}-{batch}.keras", save_freq=3),
                callbacks.ModelCheckpoint(
                    home / "best-{epoch}.weights.h5", save_best_only=True, save_weights_only=True
                ),
                callbacks.CSVLogger(home / "log.csv"),
                heard, history, watch, batches, callbacks.ProgbarLogger(),
            ],
            epochs=3,
        )  # fmt: skip
        histories.append(history.history)
        events.append(heard.events)
    shown = capsys.readouterr().out
    assert "Epoch 3/3" in shown
    assert "5/5" in shown
    assert "val_loss" in shown
    files = [sorted(os.listdir(tmp_path / name)) for name in runs]
    assert files[0] == files[1]
    assert len(files[0]) == 3 + 5 + 2 + 1  # in one epoch nothing was better
    texts = [(tmp_path / name / "log.csv").read_text().splitlines() for name in runs]
    assert texts[0][0] == texts[1][0] == "epoch,loss,val_loss"
    rows = [np.array([line.split(",") for line in text[1:]], float) for text in texts]
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-5)
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5)
    assert events[0] == events[1]
    assert events[1].count("on_test_end") == events[1].count("on_epoch_end") == 3
    of = {name: [batch for whose, batch in numbers if whose == name] for name in runs}
    assert of["keras"] == of["ours"] == [0, 1, 2, 3, 4] * 3
    name = next(name for name in files[0] if name.startswith("epoch-3"))
    saved = [keras.models.load_model(tmp_path / run / name, compile=False) for run in runs]
    _assert_same_weights(*saved)


def test_early_stopping_stops_and_restores_the_best_weights():
    found = []
    for train in (_of_keras, _of_ours):
        early = callbacks.EarlyStopping(
            "val_loss", patience=2, min_delta=0.3, restore_best_weights=True
        )
        found.append((train([early], epochs=9), early.stopped_epoch, early.best_epoch))
    assert found[0][1:] == found[1][1:]
    assert 0 < found[0][1] < 8
    _assert_same_weights(found[0][0], found[1][0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: callbacks.ReduceLROnPlateau("val_loss", patience=1, min_delta=0.5, factor=0.3),
        lambda: callbacks.LearningRateScheduler(lambda epoch, rate: 0.1 / (1 + epoch)),
    ],
    ids=["plateau", "scheduler"],
)
def test_learning_rates_are_those_of_keras(make):
    models = [train([make()], epochs=4) for train in (_of_keras, _of_ours)]
    rates = [float(model.optimizer.learning_rate) for model in models]
    assert rates[0] < 0.05
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-6)
    _assert_same_weights(*models)


def test_a_run_goes_on_in_the_middle_of_an_epoch_with_calls_of_many_steps():
    epochs, steps, runs = [], [], []
    watch = callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: epochs.append(("begin", epoch)),
        on_epoch_end=lambda epoch, logs: epochs.append(("end", epoch)),
        on_train_batch_end=lambda batch, logs: steps.append(batch),
    )

    class OfRun(ProgressBar):
        def on_train_batch_end(self, batch, logs=None):
            runs.append((batch, self._status()))

    given = [watch, OfRun("run")]
    _of_ours(given, epochs=3, initial_step=7, steps_per_call=4)
    assert epochs == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]
    assert steps == [4, 3, 4]  # calls end with their epoch
    assert [batch for batch, _ in runs] == [9, 13, 14]
    assert "of 15" in runs[0][1]


def test_without_epochs_there_is_one_and_epochs_of_some_callbacks_count_for_themselves():
    seen, inner = [], []
    watch = callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append((epoch, sorted(logs)))
    )
    of_two = callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: inner.append(epoch),
        on_train_batch_end=lambda batch, logs: inner.append(f"step {batch}"),
    )
    _of_ours([watch, Epochs(2, [of_two])], epochs=1, steps_per_epoch=None)
    assert seen == [(0, ["loss", "val_loss"])]
    assert inner == ["step 0", "step 1", 0, "step 0", "step 1", 1, "step 0"]


def test_a_loss_that_is_not_finite_ends_quietly_with_terminate_on_nan():
    def objective(model, batch):
        total, count = squared_error_objective()(model, batch)
        return total / tf.cast(model.optimizer.iterations < 3, tf.float32), count

    def train(given):
        model, optimizer = _model(), keras.optimizers.SGD(0.1)
        return fit(
            model, TRAINING.repeat(), 20, optimizer=optimizer, objective=objective, callbacks=given
        )

    assert train([callbacks.TerminateOnNaN()]) == 3
    with pytest.raises(ValueError, match="Step 4 was not applied"):
        train([])
    with pytest.raises(RuntimeError, match="NaN or Inf"):
        train([callbacks.TerminateOnNaN(raise_error=True)])


SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: callbacks.BackupAndRestore("here"), r"KeepCheckpoints.*RunDirectory.*resume"),
        (lambda: callbacks.SwapEMAWeights(), r"average=WeightAverage\(model\)"),
        (lambda: callbacks.ReduceLROnPlateau(), "takes from a schedule"),
        (lambda: callbacks.LearningRateScheduler(lambda e: 0.1), "takes from a schedule"),
        (lambda: Epochs(2, [callbacks.ReduceLROnPlateau()]), "takes from a schedule"),
        (lambda: Pace(None, lambda used, step: 0.1), "Pace sets the learning rate"),
        (lambda: "early", "objects of keras.callbacks.Callback"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_step(make, words):
    with pytest.raises(ValueError, match=f"{words}.*Received: "):
        _of_ours([make()], epochs=1, rate=SCHEDULE)


def test_the_tensorboard_of_keras_draws_training_and_validation(tmp_path):
    _of_ours([callbacks.TensorBoard(tmp_path, update_freq=1)], epochs=2)
    drawn = {}
    for part in ("train", "validation"):
        events = EventAccumulator(str(tmp_path / part)).Reload()
        drawn[part] = {name: len(events.Tensors(name)) for name in events.Tags()["tensors"]}
    assert drawn["train"]["epoch_loss"] == drawn["validation"]["epoch_loss"] == 2
    assert drawn["train"]["batch_loss"] > 2


def test_the_tensorboard_of_keras_is_refused_where_its_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn.training.supported.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install tensorboard, or use.*TensorBoardCurves"):
        _of_ours([callbacks.TensorBoard(tmp_path)], epochs=1)


def test_the_callbacks_of_this_library_are_told_of_steps_of_the_run():
    for ours in (KeepCheckpoints, Pace, ProgressBar, Epochs):
        assert ours.__module__.startswith("keras_attn.")
