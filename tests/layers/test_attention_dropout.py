"""Dropout of the weights in the attention layers with one head."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import AdditiveAttention, LuongAttention
from keras_attn.ops import additive_attention

LAYERS = {
    "additive": lambda **options: AdditiveAttention(4, **options),
    "multiplicative": lambda **options: LuongAttention(**options),
}
QUERY = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
MEMORY = np.random.default_rng(2).standard_normal((2, 64, 5)).astype("float32")


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_dropped_in_training_alone_and_returned_before(name):
    layer = LAYERS[name](dropout=0.5, seed=3)
    still, weights = layer(QUERY, MEMORY, return_attention_scores=True)
    np.testing.assert_array_equal(layer(QUERY, MEMORY), still)
    context, seen = layer(QUERY, MEMORY, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(seen, weights)
    assert np.max(np.abs(context - still)) > 1e-3
    assert np.max(np.abs(context - layer(QUERY, MEMORY, training=True))) > 1e-3
    often = layer(np.repeat(QUERY, 400, axis=1), MEMORY, training=True).numpy()
    means = often.reshape(2, 3, 400, 5).mean(axis=2)
    np.testing.assert_allclose(means, still, atol=0.1)


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_kept_is_divided_by_its_share(name):
    layer = LAYERS[name](dropout=0.25, seed=3)
    eye = np.eye(64, dtype="float32")[None].repeat(2, axis=0)  # the values show the weights
    _, weights = layer(QUERY, eye, MEMORY, return_attention_scores=True)
    kept = layer(QUERY, eye, MEMORY, training=True) / weights
    assert 0.1 < np.mean(kept == 0) < 0.4
    np.testing.assert_allclose(kept[kept != 0], 1 / 0.75, rtol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_steps_of_a_decoder_drop_too(name):
    layer = LAYERS[name](dropout=0.5, seed=3)
    layer(QUERY, MEMORY)
    keys = layer.project_memory(MEMORY)
    still, weights = layer.attend(QUERY[:, 0], keys, MEMORY)
    dropped, seen = layer.attend(QUERY[:, 0], keys, MEMORY, training=True)
    np.testing.assert_array_equal(seen, weights)
    assert np.max(np.abs(dropped - still)) > 1e-3


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_seed_drops_the_same_in_a_copy_in_a_graph_and_under_xla(name, jit_compile):
    layer = LAYERS[name](dropout=0.5, seed=3)
    copy = type(layer).from_config(layer.get_config())
    copy(QUERY, MEMORY)
    layer(QUERY, MEMORY)
    copy.set_weights(layer.get_weights())

    def compiled(layer):
        return tf.function(lambda q, m: layer(q, m, training=True), jit_compile=jit_compile)

    def eager(query, memory):
        return layer(query, memory, training=True)

    # Of one seed XLA draws other numbers than a graph.
    first, second = compiled(copy), compiled(layer) if jit_compile else eager
    drawn = [first(QUERY, MEMORY) for _ in range(2)]
    for expected in drawn:
        np.testing.assert_allclose(second(QUERY, MEMORY), expected, atol=1e-5)
    assert np.max(np.abs(drawn[0] - drawn[1])) > 1e-3


def test_without_dropout_there_is_no_seed_state_in_the_files():
    for make in LAYERS.values():
        layer = make()
        layer(QUERY, MEMORY, training=True)
        assert layer.variables == layer.weights
        assert [v.name for v in make(dropout=0.1).variables] == ["seed_generator_state"]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("rate", [-0.5, 1.0])
def test_a_dropout_outside_its_range_is_refused(name, rate):
    with pytest.raises(ValueError, match="Received: dropout="):
        LAYERS[name](dropout=rate)


def test_the_function_needs_a_seed_for_its_dropout():
    query = keras.ops.ones((1, 2, 3))
    with pytest.raises(ValueError, match="Received: seed=None"):
        additive_attention(query, query, query, keras.ops.ones((3,)), dropout=0.5)
