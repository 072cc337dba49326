"""A step that must not be applied is not, leaves no trace, and is one sentence."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from processes import HERE, finish, start_workers

from keras_attn.errors import UserError
from keras_attn.losses import token_loss
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    Pace,
    RunDirectory,
    WeightAverage,
    fit,
    load_checkpoint,
    projected_token_objective,
    token_objective,
)

VOCABULARY = 7


class Projection(keras.Model):
    """A model with everything that has a state, whose logits are products with a table."""

    def __init__(self, norm=keras.layers.BatchNormalization):
        super().__init__()
        keras.utils.set_random_seed(5)
        self.embedding = keras.layers.Embedding(6, 4)
        self.norm = norm()
        self.dropout = keras.layers.Dropout(0.3, seed=2)
        self.frozen = keras.layers.Dense(4, trainable=False)
        self.table = keras.layers.Embedding(VOCABULARY, 4)
        self(tf.zeros([1, 1], tf.int32))

    @property
    def output_table(self):
        if not self.table.built:
            self.table.build(None)
        return self.table.embeddings.value

    def features(self, inputs, training=None):
        x = self.norm(self.embedding(inputs), training=training)
        return self.dropout(self.frozen(x), training=training)

    def call(self, inputs, training=None):
        table = tf.cast(self.output_table, self.compute_dtype)
        return tf.matmul(self.features(inputs, training), table, transpose_b=True)


def _batches(label, dtype=tf.int32, bad_step=1):
    """Batches of static shape; one real token of the bad step has that label."""

    def batch(step):
        ids = tf.random.stateless_uniform([4, 3], [1, step], 0, 6, tf.int32)
        here = tf.reshape(tf.range(12) == 7, [4, 3]) & (step == bad_step - 1)
        labels = tf.where(here, tf.constant(label, dtype), tf.cast((ids + 1) % 6, dtype))
        return ids, labels, tf.sequence_mask([3, 1, 2, 3], 3)

    return tf.data.Dataset.counter(dtype=tf.int32).map(batch)


def _built(scale=None, **arguments):
    """A model, its optimiser and the average of its weights."""
    model, optimizer = Projection(**arguments), keras.optimizers.Adam(0.01)
    if scale:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=scale)
    optimizer.build(model.trainable_variables)
    return model, optimizer, WeightAverage(model, 0.9)


def _state(model, optimizer, average):
    variables = *model.variables, *optimizer.variables, *average.variables
    return [variable.numpy() for variable in variables]


def _assert_equal(found, expected):
    for got, want in zip(_state(*found), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def _stopped(batches, built, steps=1, **arguments):
    """The sentence with which training ended."""
    model, optimizer, average = built
    with pytest.raises(UserError) as caught:
        fit(model, batches, steps, optimizer=optimizer, average=average, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize(
    ("objective", "label", "dtype"),
    [
        (token_objective(0.1), VOCABULARY, tf.int32),
        (projected_token_objective(), 2**32, tf.int64),
    ],
)
def test_a_label_outside_of_the_vocabulary_stops_alike_on_every_path(
    objective, label, dtype, jit_compile
):
    built = _built()
    before = _state(*built)
    arguments = {"objective": objective, "jit_compile": jit_compile}
    sentence = _stopped(_batches(label, dtype), built, **arguments)
    assert sentence.startswith("Step 1 was not applied")
    assert sentence.endswith(f"Received: label={label}, vocabulary size={VOCABULARY}")
    _assert_equal(built, before)


def test_several_steps_in_one_call_end_before_the_one_that_is_not_applied():
    built, reference = _built(), _built()
    fit(reference[0], _batches(-1, bad_step=3), 2, optimizer=reference[1], average=reference[2])
    sentence = _stopped(_batches(-1, bad_step=3), built, steps=9, steps_per_call=5)
    assert sentence.startswith("Step 3 was not applied")
    assert sentence.endswith(f"Received: label=-1, vocabulary size={VOCABULARY}")
    _assert_equal(built, _state(*reference))


def test_a_label_is_found_in_any_part_of_the_rows():
    built = _built(norm=keras.layers.Identity)
    sentence = _stopped(_batches(9), built, accumulate=4)
    assert sentence.endswith(f"Received: label=9, vocabulary size={VOCABULARY}")


def test_all_workers_name_the_label_that_one_of_them_sees():
    for code, output, errors in finish(start_workers(2, HERE / "fault_program.py")):
        assert code == 0, errors
        assert output.startswith("Step 1 was not applied")
        assert output.endswith("Received: label=9, vocabulary size=7\n")


def test_a_label_stops_a_run_with_a_scaled_loss_and_lowers_no_scale():
    built = _built(scale=8.0)
    before = _state(*built)
    sentence = _stopped(_batches(9), built, clip_norm=0.1)
    assert sentence.endswith(f"Received: label=9, vocabulary size={VOCABULARY}")
    _assert_equal(built, before)


def test_a_loss_traced_elsewhere_stops_too():
    """What a function of its own looks up cannot be collected: its assertion speaks for itself."""
    built, traced = _built(), tf.function(token_loss)
    before = _state(*built)

    def objective(model, batch):
        return traced(batch[1], model(batch[0]), batch[2])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"label\D+9\D+7"):
        fit(built[0], _batches(9), 1, optimizer=built[1], objective=objective)
    _assert_equal(built, before)
    sentence = _stopped(_batches(9), built, objective=objective, jit_compile=True)
    assert "its loss is not finite" in sentence
    _assert_equal(built, before)


def _spoiled(factor_of_loss, factor_of_gradient):
    """An objective whose loss or gradient is spoiled where the labels of a batch say so."""

    @tf.custom_gradient
    def spoil(x, spoils):
        return x, lambda upstream: (tf.where(spoils, factor_of_gradient * upstream, upstream), None)

    def objective(model, batch):
        ids, labels, mask = batch
        spoils = tf.reduce_any(labels == 6)
        table = spoil(model.output_table, spoils)
        logits = tf.matmul(model.features(ids, True), table, transpose_b=True)
        total, count = token_loss(labels, logits, mask)
        wrong = tf.where(spoils, (factor_of_loss - 1) * total, 0.0)
        return total + tf.stop_gradient(wrong), count

    return objective


@pytest.mark.parametrize(
    ("factors", "clip_norm", "words"),
    [
        ((np.nan, 1.0), None, r"its loss is not finite: .*Received: loss=nan"),
        ((1.0, np.nan), None, r"the gradient of \S*embeddings is not finite: .*loss=\d"),
        ((1.0, -np.inf), 0.1, r"the gradient of \S*embeddings is not finite: .*loss=\d"),
        ((1.0, 1e25), 0.1, r"the norm of the gradients is not finite: .*loss=\d"),
    ],
)
def test_what_is_not_finite_is_named(factors, clip_norm, words):
    built = _built()
    before = _state(*built)
    sentence = _stopped(_batches(6), built, objective=_spoiled(*factors), clip_norm=clip_norm)
    assert re.search(words, sentence), sentence
    _assert_equal(built, before)


@pytest.mark.parametrize("factors", [(1.0, np.inf), (np.nan, 1.0)])
def test_the_optimizer_skips_what_overflows_with_its_scale_and_training_goes_on(factors):
    model, optimizer, average = _built(scale=8.0)
    options = {"optimizer": optimizer, "average": average, "objective": _spoiled(*factors)}
    assert fit(model, _batches(6), 3, **options) == 3
    assert int(optimizer.iterations) == 2
    assert float(optimizer.dynamic_scale) == 4.0
    assert all(np.isfinite(value).all() for value in _state(model, optimizer, average))


def test_callbacks_hear_nothing_of_the_step_and_the_last_checkpoint_stays(tmp_path):
    built, run, steps = _built(), RunDirectory(tmp_path), []
    pace = Pace(Budget(steps=6), lambda used, step: 0.01)
    keeping = KeepCheckpoints(run, pace, lambda: {"score": 1.0}, 1, every_steps=1)
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: steps.append(step))
    _stopped(_batches(9, bad_step=3), built, 6, callbacks=[pace, keeping, watch])
    assert steps == [0, 1]
    other = _built()
    progress = load_checkpoint(run.last_checkpoint, *other[:2])
    assert int(progress["step"]) == 2
    for got, want in zip(other[0].get_weights(), built[0].get_weights(), strict=True):
        np.testing.assert_array_equal(got, want)
