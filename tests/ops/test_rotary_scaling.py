"""Rotary scalings: the numbers of transformers, both spellings, lengths, refusals."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import rotate
from keras_attn.ops.angles import geometric_frequencies

CASES = Path(__file__).parents[1] / "cases"
SCALINGS = json.loads((CASES / "rotary_scalings.json").read_text())
DYNAMIC = {"type": "dynamic", "factor": 4.0, "original_length": 8}
LONGROPE = {
    "type": "longrope", "factor": 4.0, "original_length": 8,
    "short_factor": [1.0, 1.5, 2.0], "long_factor": [1.0, 3.0, 9.0],
}  # fmt: skip
YARN = {"type": "yarn", "factor": 4.0, "original_length": 512}
LLAMA3 = {
    "type": "llama3", "factor": 8.0, "original_length": 512,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip


def _turned(dim, positions, **arguments):
    """Amplitudes and angles, (T, dim / 2) each, of features that start at an angle of 0."""
    start = np.repeat([1.0, 0.0], dim // 2)
    y = rotate(np.broadcast_to(start, (1, len(positions), dim)), positions, **arguments)
    cos, sin = np.split(np.array(y)[0], 2, axis=-1)
    return np.hypot(cos, sin), np.arctan2(sin, cos)


@pytest.mark.parametrize("group", SCALINGS)
def test_scaling_gives_the_frequencies_and_the_factor_of_transformers(group):
    assert len(SCALINGS[group]) == 50
    for scaling, dim, length, frequencies, amplitude in SCALINGS[group]:
        amplitudes, angles = _turned(dim, np.array([1, length - 1]), scaling=scaling)
        np.testing.assert_allclose(angles[0], frequencies, rtol=1e-8, err_msg=str(scaling))
        np.testing.assert_allclose(amplitudes, amplitude, rtol=1e-8, err_msg=str(scaling))


@pytest.mark.parametrize(("scaling", "trained"), [
    (DYNAMIC, None), (LONGROPE, LONGROPE | {"long_factor": LONGROPE["short_factor"]}),
], ids=["dynamic", "longrope"])  # fmt: skip
@pytest.mark.parametrize("positions", [np.arange(8), np.arange(5), np.zeros(0, "int32")])
def test_up_to_the_original_length_the_rotation_is_that_of_the_trained_model(
    scaling, trained, positions
):
    x = keras.random.normal((2, len(positions), 6))
    expected = rotate(x, positions, scaling=trained)
    np.testing.assert_array_equal(rotate(x, positions, scaling=scaling), expected)


@pytest.mark.parametrize("scaling", [DYNAMIC, LONGROPE], ids=["dynamic", "longrope"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "xla"])
def test_each_row_goes_by_its_own_length(scaling, dtype, jit_compile):
    x = keras.random.normal((3, 4, 2, 6), dtype=dtype)
    positions = np.array([[0, 1, 2, 3], [5, 6, 7, 8], [4, 9, 90, 2]])

    def run(x, positions):
        return rotate(x, positions, scaling=scaling)

    if jit_compile is not None:
        signature = [tf.TensorSpec((None, None, 2, 6), dtype), tf.TensorSpec((None, None), "int64")]
        run = tf.function(run, input_signature=signature, jit_compile=jit_compile)
    y = run(x, tf.constant(positions))
    tolerance = 1e-6 if dtype == "float32" else 1e-12
    for row in range(3):
        alone = rotate(x[row : row + 1], positions[row], scaling=scaling)
        np.testing.assert_allclose(y[row : row + 1], alone, rtol=0, atol=tolerance)
    together = rotate(x, np.array([0, 1, 2, 90]), scaling=scaling)
    assert np.max(np.abs(y - together)[0, :3]) > 0.01


def test_dynamic_scaling_is_ntk_scaling_by_the_length():
    """At the length L the factor of NTK scaling is `f L / n - (f - 1)`."""
    x, positions = keras.random.normal((1, 20, 2, 8)), np.arange(20)
    ntk = {"type": "ntk", "factor": 4.0 * 20 / 8 - 3.0}
    expected = rotate(x, positions, scaling=ntk)
    np.testing.assert_allclose(rotate(x, positions, scaling=DYNAMIC), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["dynamic", "ntk", "linear"])
def test_two_features_have_one_frequency_that_only_linear_scaling_changes(kind):
    scaling = {"type": kind, "factor": 4.0} | ({"original_length": 8} if kind == "dynamic" else {})
    _, angles = _turned(2, np.array([1, 50]), scaling=scaling)
    np.testing.assert_allclose(angles[0], 0.25 if kind == "linear" else 1.0, rtol=1e-12)


def test_yarn_keeps_every_pair_that_turns_fast_in_a_very_long_training():
    _, angles = _turned(4, np.array([1]), base=2.0, scaling=YARN | {"original_length": 10**6})
    np.testing.assert_allclose(angles[0], geometric_frequencies(4, 2.0), rtol=1e-12)


@pytest.mark.parametrize("change", [
    {"attention_factor": 1.0}, {"mscale": 0.7, "mscale_all_dim": 0.7},
    {"attention_factor": 1.0, "mscale": 2.0, "mscale_all_dim": 1.0},
])  # fmt: skip
def test_yarn_without_a_factor_of_cosine_and_sine_keeps_lengths(change):
    np.testing.assert_allclose(_turned(8, np.arange(9), scaling=YARN | change)[0], 1, rtol=1e-12)


@pytest.mark.parametrize("change", [{}, {"mscale": 2.0}, {"mscale_all_dim": 2.0}, {"mscale": None}])
def test_yarn_takes_the_scales_of_its_logarithm_only_together(change):
    amplitudes, _ = _turned(8, np.arange(2), scaling=YARN | change)
    np.testing.assert_allclose(amplitudes, 0.1 * np.log(4.0) + 1, rtol=1e-12)


@pytest.mark.parametrize("scaling", [DYNAMIC, LONGROPE, YARN, LLAMA3], ids=lambda s: s["type"])
def test_the_names_of_hugging_face_mean_the_same(scaling):
    x, positions = keras.random.normal((2, 12, 6)), np.arange(12)
    theirs = {"type": "rope_type", "original_length": "original_max_position_embeddings"}
    pasted = {theirs.get(key, key): value for key, value in scaling.items()}
    expected = rotate(x, positions, 500.0, scaling=scaling)
    for same in (pasted, pasted | scaling, scaling | {"beta_fast": None, "attention_factor": None}):
        np.testing.assert_array_equal(rotate(x, positions, 500.0, scaling=same), expected)
    with_base = pasted | {"rope_theta": 500.0}
    np.testing.assert_array_equal(rotate(x, positions, scaling=with_base), expected)
    np.testing.assert_array_equal(rotate(x, positions, 500.0, scaling=with_base), expected)


@pytest.mark.parametrize("scaling", [
    {"type": "default"}, {"rope_type": "default"}, {"rope_type": "default", "rope_theta": 10000.0},
])  # fmt: skip
def test_the_type_default_scales_nothing(scaling):
    x = keras.random.normal((2, 12, 6))
    np.testing.assert_array_equal(
        rotate(x, np.arange(12), scaling=scaling), rotate(x, np.arange(12))
    )


@pytest.mark.parametrize(("scaling", "message"), [
    ({}, r"'type' \(or 'rope_type'\) is one of .*Received: scaling=\{\}"),
    ({"factor": 2.0}, r"one of .*'llama3'.*Received: scaling="),
    ({"type": ["yarn"], "factor": 2.0}, "one of .*Received: scaling="),
    ({"type": "linear", "rope_type": "yarn", "factor": 2.0}, "'rope_type' contradicts .*'type'"),
    (YARN | {"original_max_position_embeddings": 4}, "contradicts .*'original_length'.*Received: "),
    ({"type": "dynamic", "factor": 2.0}, r"needs 'original_length' .*Received: scaling="),
    (LLAMA3 | {"high_freq_factor": None}, r"needs 'high_freq_factor'"),
    (LLAMA3 | {"high_freq_factor": 0.5}, "'high_freq_factor' must not be below 'low_freq_factor'"),
    (YARN | {"beta_fast": 0.5}, "'beta_fast' must not be below 'beta_slow'"),
    (YARN | {"short_factor": [2.0]}, r"has no 'short_factor', only \['factor', "),
    (LONGROPE | {"original_length": 1}, "'original_length' must be a length of at least 2"),
    (YARN | {"truncate": 1}, "'truncate' must be True or False"),
    (YARN | {"attention_factor": 0}, "'attention_factor' must be a positive number"),
    (YARN | {"mscale": True}, "'mscale' must be a positive number"),
    (YARN | {"factor": float("inf")}, "'factor' must be a positive number"),
    (YARN | {"factor": float("nan")}, "'factor' must be a positive number"),
    (YARN | {"partial_rotary_factor": 0.5}, "give `rotary_dim`. Received: scaling="),
    (YARN | {"rope_theta": 0.5}, "above 1. Received: base=0.5"),
    (LONGROPE | {"factor": None}, "needs 'factor'.*Received: factor=None, attention_factor=None"),
    (LONGROPE | {"long_factor": 2.0}, "'long_factor' must be a list of positive numbers"),
    (LONGROPE | {"long_factor": [2.0, -1.0, 1.0]}, "must be a list of positive numbers"),
    (LONGROPE | {"short_factor": [2.0, 1.0]}, r"each of the 3 pairs.*Received: short_factor=\[2.0"),
])  # fmt: skip
def test_bad_scalings_are_refused_with_what_was_received(scaling, message):
    with pytest.raises(ValueError, match=message):
        rotate(np.ones((1, 2, 6), "float32"), np.arange(2), scaling=scaling)


def test_two_different_bases_are_refused():
    scaling = {"rope_type": "default", "rope_theta": 500000.0}
    with pytest.raises(ValueError, match=r"contradict each other.*Received: base=2000.0, scaling="):
        rotate(np.ones((1, 2, 6), "float32"), np.arange(2), 2000.0, scaling=scaling)
