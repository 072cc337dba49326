"""What comes after the last step, and what is looked for before the first."""

import shutil
import sys
from collections import namedtuple
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.seekable import seekable_batches
from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import train
from keras_attn.training import Budget, RunDirectory, read_history, snapshots
from keras_attn.training.array_file import read_arrays


class _Counting:
    """A recipe whose model counts its steps; what it validates may fail."""

    name, settings, clip_norm, validations, averaged = "counting", {}, None, 2, 3
    prepared_files = vocabulary_files = ()

    def __init__(self, validate=lambda weight: 1.0, packages=()):
        self._validate = validate
        self._packages = packages

    def packages(self, run):
        return self._packages

    def prepare(self, run):
        pass

    def build(self, run):
        inputs = keras.Input((1,))
        outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
        return keras.Model(inputs, outputs)

    def batches(self, run):
        return seekable_batches(lambda step: tf.ones([1, 1]))

    def optimizer(self):
        return keras.optimizers.SGD()

    def learning_rate(self, used, step):
        return 1.0

    def objective(self):
        return lambda model, batch: (-tf.reduce_sum(model(batch)), tf.constant(1.0))

    def text_model(self, model, run):
        return SimpleNamespace(model=model, warm_up=lambda: None)

    def validate(self, text_model, limits):
        return {"score": self._validate(text_model.model.get_weights()[0].item())}


class _KilledError(BaseException):
    """Stands for what ends a process: nothing catches it."""


def _killed(weight):
    raise _KilledError


def _kill_at(value):
    return lambda weight: 1.0 if weight < value else _killed(weight)


def _history(run):
    """What validations found."""
    return [entry for entry in read_history(run.path) if "score" in entry]


def _average(run):
    return read_arrays(run.average_checkpoint)["model/0"].item()


def test_a_run_that_is_killed_after_its_last_step_is_brought_to_its_end(tmp_path, capsys):
    run, budget = RunDirectory(tmp_path / "run"), Budget(steps=10)
    for validate in (
        _kill_at(10.0),  # in the validation of the last step
        lambda weight: 1.0 if weight == 10.0 else _killed(weight),  # in that of the average
    ):
        with pytest.raises(_KilledError):
            train(_Counting(validate), run, budget)
        assert not run.average_checkpoint.exists()
    snapshots(run)[1].write_bytes(b"damaged")
    assert train(_Counting(), run, budget) is None
    assert _average(run) == 9.0  # of 8, 9 and 10 without 9
    assert "9.npz is not a checkpoint" in (run.path / "log.txt").read_text()
    entries = [(entry["step"], entry.get("averaged")) for entry in _history(run)]
    assert entries == [(5, None), (10, None), (10, 2)]

    before = {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()}
    capsys.readouterr()
    assert train(_Counting(_killed), run, budget) is None
    assert f"run in {run.path} is finished, at step 10;" in capsys.readouterr().err
    assert before == {path.name: path.stat().st_mtime_ns for path in run.path.iterdir()}

    assert train(_Counting(), run, Budget(steps=20)) is None  # a larger budget goes on
    assert _average(run) == 19.0
    assert [entry.get("averaged") for entry in _history(run)][-1] == 3


def test_a_run_that_patience_ended_gets_its_average_after_a_kill_too(tmp_path):
    run, budget = RunDirectory(tmp_path / "run"), Budget(steps=20)
    in_average = iter([1.0, 1.0])
    with pytest.raises(_KilledError):
        train(
            _Counting(lambda weight: next(in_average, None) or _killed(weight)),
            run, budget, patience=1,
        )  # fmt: skip
    assert not run.average_checkpoint.exists()
    assert train(_Counting(), run, budget, patience=1) is None
    assert _average(run) == 19.0


def test_a_run_in_use_is_refused_and_read(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with run.locked(), pytest.raises(UserError, match="in use by process"):
        train(_Counting(), RunDirectory(tmp_path / "run"), Budget(steps=2))


def test_a_package_that_the_end_needs_is_missed_at_the_start(tmp_path, monkeypatch):
    recipe = _Counting(packages=("json", "sacrebleu"))
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UserError, match=r"The recipe counting needs sacrebleu, .*\[translation\]"):
        train(recipe, RunDirectory(tmp_path / "run"), Budget(steps=2))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "settings", "packages"),
    [
        ("dates", {}, {"babel"}),
        ("adding", {}, set()),
        ("multi30k-pieces", {}, {"sacrebleu"}),
        ("multi30k-transformer", {}, {"sacrebleu", "sentencepiece"}),
    ],
)
def test_recipes_name_what_they_need(tmp_path, name, settings, packages):
    run = RunDirectory(tmp_path)
    assert set(make_recipe(name, **settings).packages(run)) == packages
    (tmp_path / "subwords.model").write_bytes(b"learned")
    assert "sentencepiece" not in make_recipe(name, **settings).packages(run)


def test_a_disk_without_room_for_the_checkpoints_is_refused_at_the_start(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    recipe, run = _Counting(), RunDirectory(tmp_path / "run")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 1000))
    sentence = rf"will take 0\.0 MB, and {run.path} has 0\.0 MB free for them: make room"
    with pytest.raises(UserError, match=sentence):
        train(recipe, run, Budget(steps=2))
    assert not run.checkpoints
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 30_000))
    assert train(recipe, run, Budget(steps=4)) is None
    taken = sum(path.stat().st_size for path in run.checkpoints)
    assert taken < 30_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 30_000 - taken))
    assert train(recipe, run, Budget(steps=6)) is None  # what is there will be replaced
    assert np.isfinite(_average(run))
