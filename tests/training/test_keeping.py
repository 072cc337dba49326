import resource
import threading
import uuid

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    KeepSnapshots,
    Pace,
    RunDirectory,
    fit,
    keeping,
    load_average,
    load_checkpoint,
    resume,
    snapshots,
)
from keras_attn.training.array_file import read_arrays


def _trained(tmp_path, scores, steps=8):
    """A model of one weight that counts its steps, validated four times."""
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(inputs))
    model.layers[-1].kernel.assign([[0.0]])
    run, pace, lines = RunDirectory(tmp_path), Pace(Budget(steps=steps), lambda used, step: 1.0), []
    scores = iter(scores)
    keeping = KeepCheckpoints(
        run, pace, lambda: {"score": next(scores)}, validations=4, report=lines.append
    )
    batches = tf.data.Dataset.from_tensors(tf.ones([1, 1])).repeat()
    fit(
        model, batches, None, optimizer=keras.optimizers.SGD(), callbacks=[pace, keeping],
        objective=lambda model, batch: (-tf.reduce_sum(model(batch)), tf.constant(1.0)),
    )  # fmt: skip
    return model, run, lines


def _steps_of(path, model):
    progress = load_checkpoint(path, model)
    return float(np.squeeze(model.get_weights()[0])), progress


def test_the_best_and_the_last_checkpoint_are_kept(tmp_path):
    model, run, lines = _trained(tmp_path, [0.1, 0.5, 0.4, 0.5])
    weight, progress = _steps_of(run.best_checkpoint, model)
    assert (weight, progress["step"], progress["best"]) == (4.0, 4, 0.5)
    weight, progress = _steps_of(run.last_checkpoint, model)
    assert (weight, progress["step"], progress["best"]) == (8.0, 8, 0.5)
    assert [line.split("  (validated in 0.")[0] for line in lines] == [
        "step 2: score 0.1000",
        "step 4: score 0.5000",
        "step 6: score 0.4000",
        "step 8: score 0.5000",
    ]


class _Run:
    """A model of one weight that counts its steps, and the callbacks of a run of eight."""

    def __init__(self, directory, score=lambda: 1.0, **options):
        inputs = keras.Input((1,))
        outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
        self.model = keras.Model(inputs, outputs)
        self.optimizer = keras.optimizers.SGD()
        self.run, self.lines = RunDirectory(directory), []
        progress = resume(self.run, self.model, self.optimizer, report=self.lines.append)
        self.step = progress.get("step", 0)
        self.pace = Pace(Budget(steps=8), lambda used, step: 1.0)
        self.keeping = KeepCheckpoints(
            self.run,
            self.pace,
            lambda: {"score": score()},
            validations=2,
            report=self.lines.append,
            validation_is_due=progress.get("validation_is_due", False),
            **options,
        )

    def train(self, *callbacks, objective=None):
        batches = tf.data.Dataset.from_tensors(tf.ones([1, 1])).repeat()
        fit(
            self.model, batches, None, optimizer=self.optimizer, initial_step=self.step,
            callbacks=[self.pace, *callbacks, self.keeping],
            objective=objective
            or (lambda model, batch: (-tf.reduce_sum(model(batch)), tf.constant(1.0))),
        )  # fmt: skip
        return self


def _saved(run):
    arrays = read_arrays(run.last_checkpoint)
    return arrays["progress/step"], arrays["model/0"].item()


def _stop():
    raise RuntimeError("stop")


def test_a_validation_that_was_broken_off_is_made_up_for_at_the_next_start(tmp_path):
    for step in (4, 8):
        calls = iter([1.0] if step == 8 else [])
        broken = _Run(tmp_path, lambda calls=calls: next(calls, None) or _stop())
        with pytest.raises(RuntimeError):
            broken.train()
        assert _saved(broken.run) == (step, step)
    ended = _Run(tmp_path).train()
    (line,) = ended.lines
    assert line.startswith("step 8: score 1.0000 ")
    assert _saved(ended.run) == (8, 8)
    assert ended.run.best_checkpoint.exists()
    assert _Run(tmp_path).train().lines == []


@pytest.mark.parametrize("moment", ["before a step", "after a step", "in a step"])
def test_an_exception_leaves_a_checkpoint_whose_state_is_that_of_its_step(tmp_path, moment):
    """The weight counts the steps, and must be the step that the checkpoint tells."""
    run, objective = _Run(tmp_path, every_steps=2), None
    raiser = keras.callbacks.Callback()

    def fail(batch, logs=None):
        if batch == 5:
            _stop()

    def fail_in_step(model, batch):
        with tf.control_dependencies(
            [tf.debugging.assert_less(tf.cast(run.optimizer.iterations.value, tf.int32), 5)]
        ):
            return -tf.reduce_sum(model(batch)), tf.constant(1.0)

    if moment == "before a step":
        raiser.on_train_batch_begin = fail
    elif moment == "after a step":
        raiser.on_train_batch_end = fail
    else:
        objective = fail_in_step
    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError)):
        run.train(raiser, objective=objective)
    expected = {"before a step": 5, "after a step": 6, "in a step": 4}[moment]
    assert _saved(run.run) == (expected, expected)


def test_a_disk_that_is_full_ends_training_in_a_sentence_and_keeps_the_checkpoint(tmp_path):
    run = _Run(tmp_path, every_steps=1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(batch, logs=None):
        if batch == 3:
            run.run.writer.wait()
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))

    filling = keras.callbacks.LambdaCallback(on_train_batch_begin=fill)
    try:
        with pytest.raises(UserError, match=r"Cannot write .*\.npz: .*unharmed"):
            run.train(filling)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert _saved(run.run) == (3, 3)


def test_the_values_of_a_checkpoint_are_those_of_its_step_while_training_goes_on(
    tmp_path, monkeypatch
):
    """Nothing that is trained while a file is written comes into it."""
    goes_on, write = threading.Event(), keeping.write_arrays

    def slow(path, arrays, previous=None):
        goes_on.wait(10)
        write(path, arrays, previous)

    monkeypatch.setattr(keeping, "write_arrays", slow)
    run = _Run(tmp_path, every_steps=3)
    waits = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs=None: (
            batch == 3 and not run.run.last_checkpoint.exists() and goes_on.set()
        )
    )
    run.train(waits)
    assert goes_on.is_set()
    assert _saved(run.run) == (8, 8)
    previous = read_arrays(run.run.previous_checkpoint)
    assert previous["progress/step"] == previous["model/0"].item()


def test_a_long_save_is_told(tmp_path):
    run = _Run(tmp_path)
    run.run.writer.longest = 30.0
    assert "the longest save took 30.0 s; what stops this run must" in run.train().lines[0]


def test_everything_of_a_run_lies_on_a_file_system_of_tensorflow():
    place = f"ram://{uuid.uuid4().hex}/run"
    with RunDirectory(place).locked():
        first = _Run(place, every_steps=2)
        stopping = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs=None: (
                batch == 4 and setattr(first.model, "stop_training", True)
            )
        )
        first.run.begin("mine", {})
        first.train(stopping, KeepSnapshots(first.run, first.pace, count=2, spacing=0.1))
        first.run.log("step 7: lost")
        first.run.record({"step": 7})
        first.run.record({"step": 5})
        first.run.flush()
        second = _Run(place)
        assert second.step == 5
        second.train(KeepSnapshots(second.run, second.pace, count=2, spacing=0.1))
    assert _saved(second.run) == (8, 8)
    assert second.run.description()["recipe"] == "mine"
    assert [path.name for path in snapshots(second.run)] == ["000000007.npz", "000000008.npz"]
    assert load_average(snapshots(second.run), second.model)["averaged"] == 2
    assert second.model.get_weights()[0].item() == 7.5
    assert second.run.history.read_text().splitlines() == ['{"step": 5}']
    assert (second.run.path / "log.txt").read_text() == ""
    assert {path.name for path in second.run.path.glob("*")} == {
        "best.npz", "history.jsonl", "last.npz", "log.txt", "previous.npz", "settings.json",
        "snapshots",
    }  # fmt: skip
