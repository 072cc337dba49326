"""The GRU layer against the reference numbers, Keras and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import cases
from gradient_check import check_gradients

from keras_attn.layers import GRU, GRUCell

INPUTS = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", cases("recurrent", "gru"))
def test_reference_numbers(case, dtype):
    reset_after = case["reset_after"]
    layer = GRU(2, reset_after=reset_after, return_sequences=True, return_state=True, dtype=dtype)
    layer.build(np.shape(case["inputs"]))
    bias = np.array(case["bias"])
    if reset_after:
        bias = np.stack([bias, case["recurrent_bias"]])
    layer.set_weights([np.array(case["kernel"]), np.array(case["recurrent_kernel"]), bias])
    initial = np.array(case["initial_h"], dtype)
    sequence, h = layer(np.array(case["inputs"], dtype), initial_state=initial)
    np.testing.assert_allclose(sequence, case["expect"]["sequence"], atol=1e-6)
    np.testing.assert_allclose(h, np.array(case["expect"]["sequence"])[:, -1], atol=1e-6)


MASK = np.array([[1, 0, 1], [1, 1, 1]], bool)
OPTIONS = {
    "plain": {},
    "backwards": {"go_backwards": True},
    "unrolled": {"unroll": True},
    "no-bias": {"use_bias": False},
    "activations": {"activation": "relu", "recurrent_activation": "hard_sigmoid"},
    "dropout": {"dropout": 0.3},
    "recurrent-dropout": {"recurrent_dropout": 0.4},
    "both-dropouts": {"dropout": 0.3, "recurrent_dropout": 0.4},
    "dropout-by-gate": {"dropout": 0.3, "implementation": 1, "use_cudnn": False},
    "initializers": {
        "kernel_initializer": keras.initializers.HeNormal(seed=1),
        "recurrent_initializer": keras.initializers.RandomNormal(seed=2),
        "bias_initializer": keras.initializers.RandomNormal(seed=3),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("reset_after", [False, True])
def test_equals_keras_with_its_weights_and_seeds(name, reset_after):
    options = {**OPTIONS[name], "return_sequences": True, "return_state": True, "seed": 5}
    ours = GRU(6, reset_after=reset_after, **options)
    theirs = keras.layers.GRU(6, reset_after=reset_after, **options)
    ours.build(INPUTS.shape)
    theirs.build(INPUTS.shape)
    if name == "initializers":
        for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(1)
    ours.set_weights([0.5 * rng.standard_normal(w.shape) for w in theirs.get_weights()])
    theirs.set_weights(ours.get_weights())
    state = INPUTS[:, 0, :1] * np.ones((1, 6), "float32")
    for _ in range(2):  # the second call draws the next dropout masks
        got = ours(INPUTS, initial_state=state, training=True)
        expected = theirs(INPUTS, initial_state=state, training=True)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_cho_form_is_the_default_and_a_config_of_keras_keeps_its_own():
    assert not GRU(6).reset_after
    assert not GRUCell(6).reset_after
    config = keras.layers.GRU(6, dropout=0.2, kernel_regularizer="l2").get_config()
    layer = GRU.from_config(config)
    assert layer.reset_after
    assert {key: layer.get_config()[key] for key in config} == config


@pytest.mark.parametrize("reset_after", [False, True])
def test_gradients_equal_finite_differences(reset_after):
    options = {"return_sequences": True, "return_state": True, "dtype": "float64"}
    layer = GRU(2, reset_after=reset_after, **options)
    check_gradients(layer, INPUTS[:2, :3].astype("float64"), MASK)


@pytest.mark.parametrize("reset_after", [False, True])
def test_a_cell_takes_its_state_bare_or_in_a_list(reset_after):
    cell = GRUCell(6, reset_after=reset_after)
    state = tf.ones((3, 6))
    output, bare = cell(INPUTS[:, 0], state)
    same, (listed,) = cell(INPUTS[:, 0], [state])
    for got in (bare, same, listed):
        np.testing.assert_array_equal(got, output)
