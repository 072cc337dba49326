"""Scheduled sampling and input feeding, of a chain whose answers are known and of the models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import TokenLoss
from keras_attn.models import GNMT, RNNEncoderDecoder, RNNSearch
from keras_attn.models.step_by_step import StepByStep, _drawn

BATCH, SOURCE, TARGET, VOCABULARY, UNITS = 3, 6, 5, 11, 8

MODELS = {
    "gnmt": lambda **options: GNMT(
        VOCABULARY, VOCABULARY, 7, UNITS, 2, 3, attention_units=5, **options
    ),
    "rnn search": lambda **options: RNNSearch(
        VOCABULARY, VOCABULARY, 7, 5, UNITS, 5, UNITS, **options
    ),
    "one vector": lambda **options: RNNEncoderDecoder(
        VOCABULARY, VOCABULARY, 7, UNITS, readout_units=UNITS, **options
    ),
}
ATTENDING = ("gnmt", "rnn search")


def _model(name, **options):
    keras.utils.set_random_seed(1)
    model = MODELS[name](**options)
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(generator.normal(size=variable.shape, scale=0.6))
    return model


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {
        "source": generator.integers(3, VOCABULARY, (BATCH, SOURCE)).astype("int32"),
        "source_lengths": np.array([6, 3, 1], "int32"),
        "target": generator.integers(3, VOCABULARY, (BATCH, TARGET)).astype("int32"),
    }


class Chain:
    """Whatever it is given it predicts token 7, and its features say what it was given."""

    def prepare(self, memory):
        return memory

    def start(self, memory):
        return memory

    def advance(self, tokens, state, memory, training):
        return tf.one_hot(tokens, 9), None, state

    def logits(self, features):
        return tf.one_hot(tf.fill(tf.shape(features)[:1], 7), 9, on_value=50.0)

    def at_once(self, target, memory, training):
        return tf.one_hot(target, 9)


def test_the_rate_is_the_share_of_tokens_that_are_drawn_and_the_first_never_is():
    keras.utils.set_random_seed(3)
    target, memory = tf.fill([200, 31], 3), tf.zeros([200, 1])
    loop = StepByStep(Chain(), [], features=9, rate=0.3, feeds=False)
    run = tf.function(lambda: tf.argmax(loop(target, memory, training=True), axis=-1))
    for rate in (0.3, 0.0, 0.8, 1.0):
        loop.rate.assign(rate)  # read anew at each call of the compiled function
        given = run().numpy()
        assert set(np.unique(given)) <= {3, 7}
        assert (given[:, 0] == 3).all()
        assert abs((given[:, 1:] == 7).mean() - rate) < 0.02
    at_rest = tf.argmax(loop(target, memory, training=False), axis=-1)
    np.testing.assert_array_equal(at_rest, target)


def test_tokens_are_drawn_with_their_probabilities():
    logits = tf.math.log([[0.1, 0.0, 0.2, 0.7]])
    quantiles = (np.arange(1000, dtype="float32") + 0.5) / 1000
    found = np.bincount(_drawn(tf.repeat(logits, 1000, axis=0), quantiles), minlength=4)
    np.testing.assert_allclose(found, [100, 0, 200, 700], atol=1)
    assert _drawn(tf.constant([[0.0, -50.0]]), np.float32([0.9999999])).numpy() == [0]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_drawn_takes_the_place_of_what_is_given(name, inputs):
    model = _model(name, scheduled_sampling=0.0)
    expected = model.features(inputs)
    state = model.step_by_step.seed_generator.state
    before = state.numpy()
    np.testing.assert_allclose(model.features(inputs, training=True), expected, atol=1e-5)
    model.sampling_rate.assign(1.0)
    np.testing.assert_allclose(model.features(inputs), expected, atol=1e-5)  # not in training

    def drawn(given):
        state.assign(before)
        return model.features(given, training=True)

    later = {**inputs, "target": np.c_[inputs["target"][:, :1], inputs["target"][:, :0:-1]]}
    first = {**inputs, "target": np.c_[inputs["target"][:, :1] % 8 + 3, inputs["target"][:, 1:]]}
    assert (first["target"] != inputs["target"]).any()
    np.testing.assert_array_equal(drawn(inputs), drawn(later))
    assert np.abs(drawn(inputs) - drawn(first)).max() > 1e-3
    assert np.abs(drawn(inputs) - expected)[:, 1:].max() > 1e-3
    again = _model(name, scheduled_sampling=1.0)
    np.testing.assert_array_equal(again.features(inputs, training=True), drawn(inputs))
    assert np.abs(again.features(inputs, training=True) - drawn(inputs)).max() > 1e-3


def test_a_model_of_half_precision_draws_by_a_float32_rate(inputs):
    model = _model("one vector", dtype="mixed_bfloat16", scheduled_sampling=0.3)
    assert model.features(inputs, training=True).dtype == tf.bfloat16
    assert model.sampling_rate.dtype == "float32"


@pytest.mark.parametrize("name", ATTENDING)
def test_a_step_is_fed_what_the_last_one_predicted_from(name, inputs):
    model = _model(name, input_feeding=True)
    logits, memory = model(inputs), model.encode(inputs)
    state = model.start(memory)
    np.testing.assert_array_equal(state["fed"], np.zeros((BATCH, UNITS)))
    for t in range(TARGET):
        features, _, state = model.advance(inputs["target"][:, t], state, memory, False)
        np.testing.assert_allclose(model.logits(features), logits[:, t], atol=1e-5)
        np.testing.assert_array_equal(state["fed"], features)
    token = inputs["target"][:, 0]
    other = {**state, "fed": -state["fed"]}
    one, changed = (model.advance(token, each, memory, False)[0] for each in (state, other))
    assert np.abs(one - changed).max() > 1e-3
    # What is fed comes after the word and before the context.
    cell = (model.bottom if name == "gnmt" else model.decoder).cell.cell
    rows = cell.kernel.numpy().copy()
    rows[7 : 7 + UNITS] = 0
    cell.kernel.assign(rows)
    one, same = (model.advance(token, each, memory, False)[0] for each in (state, other))
    np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize(
    ("name", "jit_compile", "options"),
    [("rnn search", False, {"input_feeding": True}), ("one vector", True, {})],
    ids=["graph", "xla"],
)
def test_fit_trains_a_model_that_draws_and_the_seeds_decide(name, jit_compile, options, inputs):
    model = _model(name, dropout=0.2, scheduled_sampling=0.5, **options)
    model.compile("adam", TokenLoss(), jit_compile=jit_compile)
    seeds = [weight for weight in model.variables if weight.name == "seed_generator_state"]
    seeds_at_first = [seed.numpy() for seed in seeds]
    begun = model.get_weights()

    def train():
        model.set_weights(begun)
        for variable in model.optimizer.variables[:1] + model.optimizer.variables[2:]:
            variable.assign(tf.zeros_like(variable))
        for seed, value in zip(seeds, seeds_at_first, strict=True):
            seed.assign(value)
        labels = np.roll(inputs["target"], -1, axis=1)
        history = model.fit(inputs, labels, epochs=2, batch_size=BATCH, verbose=0).history
        return history["loss"], model.get_weights()

    losses, trained = train()
    assert np.isfinite(losses).all()
    still = [
        weight.path
        for weight, old, new in zip(model.weights, begun, trained, strict=True)
        if weight.trainable and (old == new).all()
    ]
    assert not still
    assert train()[0] == losses
