import keras
import numpy as np
import pytest
import tensorflow as tf

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
    _count_steps(model, run, 40, first=17, count=2)
    assert [path.name for path in snapshots(run)] == [f"{step:09d}.npz" for step in (36, 40)]


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
