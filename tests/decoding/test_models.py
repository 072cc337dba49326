"""Searches over real models: their caches and states change nothing but the time."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search, greedy_search
from keras_attn.models import RNNSearch, Transformer

SOURCES, SOURCE_LENGTH, LENGTH, VOCABULARY = 200, 7, 9, 12
START, END = 1, 2

SEARCHES = {
    "greedy": lambda *call: greedy_search(*call, min_length=3),
    "beam": lambda *call: beam_search(*call, beam_width=4, length_penalty=0.6, min_length=3),
}


def rnn_search(cell):
    return RNNSearch(VOCABULARY, VOCABULARY, 8, 8, 8, 8, 8, cell=cell)


MODELS = {
    "gru": lambda: rnn_search("gru"),
    "lstm": lambda: rnn_search("lstm"),
    "transformer": lambda: Transformer(VOCABULARY, VOCABULARY, 16, 2, 24, 1, 2, max_length=LENGTH),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    """A model whose answers differ from source to source and end at different lengths."""
    keras.utils.set_random_seed(4)
    model = MODELS[request.param]()
    rng = np.random.default_rng(5)
    for variable in model.trainable_variables:
        if len(variable.shape) >= 2:
            # A tied output layer with a large embedding would only repeat its input.
            scale = 0.3 if "embedding" in variable.path else 0.8
            variable.assign(rng.normal(size=variable.shape, scale=scale))
    return model


def sources():
    rng = np.random.default_rng(6)
    return {
        "source": rng.integers(3, VOCABULARY, (SOURCES, SOURCE_LENGTH)).astype("int32"),
        "source_lengths": rng.integers(1, SOURCE_LENGTH + 1, SOURCES).astype("int32"),
    }


def search_with_state(model, search):
    @tf.function
    def run(inputs):
        state = model.initial_state(model.encode(inputs))
        return SEARCHES[search](model.step, state, SOURCES, START, END, LENGTH)

    return run(sources())


def search_by_recomputation(model, search):
    """The same search over a step that runs the whole model on the source and all tokens so far."""

    def step(tokens, state):
        here = tf.range(LENGTH) == state["position"][:, None]
        prefix = tf.where(here, tokens[:, None], state["prefix"])  # (N, L)
        logits = model({**state["memory"], "target": prefix}, training=False)  # (N, L, V)
        logits = tf.gather(logits, state["position"], batch_dims=1)
        return logits, {**state, "prefix": prefix, "position": state["position"] + 1}

    @tf.function
    def run(inputs):
        state = {
            "memory": inputs,
            "prefix": tf.zeros([SOURCES, LENGTH], tf.int32),
            "position": tf.zeros([SOURCES], tf.int32),
        }
        return SEARCHES[search](step, state, SOURCES, START, END, LENGTH)

    return run(sources())


@pytest.mark.parametrize("search", SEARCHES)
def test_states_and_caches_give_what_full_recomputation_gives(model, search):
    found = search_with_state(model, search)
    expected = search_by_recomputation(model, search)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    best = {tuple(tokens) for tokens in found.tokens[:, 0].numpy().tolist()}
    assert len(best) > SOURCES // 10  # the answers do depend on the source
    assert len(set(found.lengths[:, 0].numpy().tolist())) > 1


@pytest.mark.parametrize("search", SEARCHES)
def test_a_hypothesis_is_worth_what_the_model_says_of_its_tokens(model, search):
    found = search_with_state(model, search)
    width = found.tokens.shape[1]
    inputs = {name: tf.repeat(value, width, axis=0) for name, value in sources().items()}
    tokens = tf.reshape(found.tokens, [-1, LENGTH])  # (N, L)
    target = tf.pad(tokens[:, :-1], [[0, 0], [1, 0]], constant_values=START)
    log_probabilities = tf.nn.log_softmax(model({**inputs, "target": target}))
    chosen = tf.gather(log_probabilities, tokens, batch_dims=2)  # (N, L)
    real = tf.sequence_mask(tf.reshape(found.lengths, [-1]), LENGTH)
    expected = tf.reduce_sum(tf.where(real, chosen, 0.0), axis=1)
    used = tf.reshape(found.lengths, [-1]) > 0
    assert tf.reduce_mean(tf.cast(used, tf.float32)) > 0.9
    np.testing.assert_allclose(
        tf.reshape(found.log_probabilities, [-1])[used], expected[used], atol=1e-4
    )


@pytest.mark.parametrize("search", SEARCHES)
def test_an_empty_batch_has_no_answers(model, search):
    inputs = {name: value[:0] for name, value in sources().items()}
    state = model.initial_state(model.encode(inputs))
    found = SEARCHES[search](model.step, state, 0, START, END, LENGTH)
    assert found.tokens.shape[0] == 0
