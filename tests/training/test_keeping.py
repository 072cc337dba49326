import keras
import numpy as np
import tensorflow as tf

from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    Pace,
    RunDirectory,
    fit,
    load_checkpoint,
)


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
