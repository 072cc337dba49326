import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import (
    Budget,
    KeepSnapshots,
    Pace,
    RunDirectory,
    fit,
    load_average,
    load_checkpoint,
    save_checkpoint,
    snapshots,
)
from keras_attn.training.averaging import average_is_due, save_average


def _model():
    inputs = keras.Input((1,))
    outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
    return keras.Model(inputs, keras.layers.Dropout(0.5, seed=3)(outputs))


def _count_steps(model, run, steps, first=0, count=3):
    """Train a model whose weight is the number of its steps."""
    pace = Pace(Budget(steps=steps), lambda used, step: 1.0)
    fit(
        model,
        tf.data.Dataset.from_tensors(tf.ones([1, 1])).repeat(),
        None,
        optimizer=keras.optimizers.SGD(),
        objective=lambda model, batch: (-tf.reduce_sum(model(batch)), tf.constant(1.0)),
        initial_step=first,
        callbacks=[pace, KeepSnapshots(run, pace, count, spacing=0.1)],
    )


def test_the_last_snapshots_are_kept_and_averaged(tmp_path):
    model, run = _model(), RunDirectory(tmp_path)
    _count_steps(model, run, 20)
    assert [path.name for path in snapshots(run)] == [f"{step:09d}.npz" for step in (16, 18, 20)]
    progress = load_average(snapshots(run), model)
    assert model.get_weights()[0].item() == 18.0
    assert progress["step"] == 20


def test_snapshots_of_steps_that_a_crash_lost_are_thrown_away(tmp_path):
    model, run = _model(), RunDirectory(tmp_path)
    _count_steps(model, run, 20)
    model.layers[1].kernel.assign([[17.0]])
    _count_steps(model, run, 19, first=17)  # where step 20 never was
    assert [path.name for path in snapshots(run)] == [f"{step:09d}.npz" for step in (16, 18, 19)]


def test_an_average_is_taken_of_weights_and_nothing_else(tmp_path):
    model, values = _model(), (1e-3, 2.0, 4e3)
    seeds = [variable for variable in model.variables if "seed" in variable.path]
    assert seeds
    for number, value in enumerate(values):
        model.set_weights([np.full((1, 1), value)])
        seeds[0].assign([number, 7])
        save_checkpoint(tmp_path / f"{number}.npz", model, None, {"step": number})
    load_average([tmp_path / f"{number}.npz" for number in range(3)], model)
    np.testing.assert_allclose(model.get_weights()[0], np.mean(values), rtol=1e-6)
    np.testing.assert_array_equal(seeds[0], [2, 7])
    save_checkpoint(tmp_path / "average.npz", model, None, {"step": 2})
    other = _model()
    load_checkpoint(tmp_path / "average.npz", other)
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])


def test_nothing_to_average_is_refused():
    with pytest.raises(ValueError, match=r"Received: paths=\[\]"):
        load_average([], _model())


def _snapshots_of(run, values):
    model = _model()
    for step, value in enumerate(values, start=1):
        model.set_weights([np.full((1, 1), value)])
        save_checkpoint(run.snapshots / f"{step:09d}.npz", model, None, {"step": step})
    return model


def test_a_damaged_snapshot_is_left_out_of_the_average_with_a_line(tmp_path):
    run, lines = RunDirectory(tmp_path), []
    model = _snapshots_of(run, [1.0, 2.0, 3.0, 4.0])
    for path in (snapshots(run)[1], snapshots(run)[3]):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="not a checkpoint"):
        load_average(snapshots(run), model)
    progress = load_average(snapshots(run), model, report=lines.append)
    assert (progress["step"], progress["averaged"]) == (3, 2)
    assert model.get_weights()[0].item() == 2.0
    assert ["2.npz is not" in lines[0], "4.npz is not" in lines[1]] == [True, True]
    with pytest.raises(UserError, match="not a checkpoint"):
        load_average([snapshots(run)[1]], model, report=lines.append)


def test_an_average_is_due_until_it_is_there_whole_and_of_the_newest_snapshots(tmp_path):
    run = RunDirectory(tmp_path)
    model = _snapshots_of(run, [1.0])
    assert not average_is_due(run)
    _snapshots_of(run, [1.0, 2.0])
    assert average_is_due(run)
    save_average(run, model, load_average(snapshots(run), model), score=0.5)
    assert not average_is_due(run)
    whole = run.average_checkpoint.read_bytes()
    run.average_checkpoint.write_bytes(whole[:-1])
    assert average_is_due(run)
    run.average_checkpoint.write_bytes(whole)
    _snapshots_of(run, [1.0, 2.0, 3.0])
    assert average_is_due(run)


class _CountAndHalf(keras.layers.Layer):
    def build(self, shape):
        self.count = self.add_weight(shape=(1,), dtype="int32", initializer="zeros")
        self.half = self.add_weight(shape=(1,), dtype="bfloat16", initializer="zeros")

    def call(self, x):
        return x


def test_whole_numbers_are_not_averaged_and_small_types_keep_theirs(tmp_path):
    layer = _CountAndHalf()
    model = keras.Sequential([keras.Input((1,)), layer])
    for number in (1, 4):
        layer.count.assign([number])
        layer.half.assign([float(number)])
        save_checkpoint(tmp_path / f"{number}.npz", model, None, {"step": number})
    load_average([tmp_path / "1.npz", tmp_path / "4.npz"], model)
    assert layer.count.numpy().tolist() == [4]
    assert float(layer.half.numpy()[0]) == 2.5
