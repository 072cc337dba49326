"""Rotations and sinusoids: reference numbers, precision far out, conventions."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.ops import permute_features, rotate, sinusoid
from keras_attn.ops.angles import token_positions

CASES = Path(__file__).parents[1] / "cases"


@pytest.mark.parametrize("case", cases("positions", "rope"))
@pytest.mark.parametrize("heads", [False, True])
def test_rotation_gives_the_reference_numbers(case, heads):
    x = np.array(case["inputs"], "float32")[None]
    x = x[:, :, None] if heads else x
    y = rotate(x, np.array(case["positions"]), case["base"], case["convention"], case["scaling"])
    np.testing.assert_allclose(np.reshape(y, np.shape(case["expect"])), case["expect"], atol=1e-5)


@pytest.mark.parametrize("case", cases("positions", "sinusoid"))
def test_sinusoid_gives_the_reference_numbers(case):
    arguments = case["dim"], case["layout"], case["max_wavelength"]
    y = sinusoid(np.array(case["positions"]), *arguments)
    np.testing.assert_allclose(y, case["expect"], atol=1e-5)


def test_the_layout_of_opennmt_tf_gives_its_numbers():
    rows = json.loads((CASES / "opennmt_positions.json").read_text())
    assert len(rows) == 50
    for dim, position, expected in rows:
        exact = sinusoid(np.array([position]), dim, "opennmt_tf", dtype="float64")[0]
        np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-8)
        rounded = sinusoid(np.array([position]), dim, "opennmt_tf")[0]
        np.testing.assert_allclose(rounded, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("furthest", "tolerance"), [(10_000, 1e-4), (100_000, 1e-3)])
@pytest.mark.parametrize("convention", ["half_split", "interleaved"])
def test_product_depends_on_the_distance_alone(furthest, tolerance, convention):
    """The measured error is 100 times smaller, for the angles are reduced exactly."""
    query, key = keras.random.normal((1, 1, 64)), keras.random.normal((1, 1, 64))
    starts = np.random.default_rng(1).integers(0, furthest - 200, 300)
    for distance in (0, 1, 7, 199):
        at = rotate(tf.repeat(query, 300, axis=1), starts + distance, convention=convention)
        to = rotate(tf.repeat(key, 300, axis=1), starts, convention=convention)
        products = np.sum(np.array(at) * np.array(to), axis=-1)
        norm = np.linalg.norm(query) * np.linalg.norm(key)
        assert np.ptp(products) < 0.1 * tolerance * norm


@pytest.mark.parametrize(("furthest", "tolerance"), [(10_000, 1e-4), (100_000, 1e-3)])
def test_product_of_sinusoids_depends_on_the_distance_alone(furthest, tolerance):
    starts = np.random.default_rng(1).integers(0, furthest - 200, 300)
    for distance in (0, 1, 7, 199):
        products = np.sum(np.array(sinusoid(starts + distance, 64) * sinusoid(starts, 64)), -1)
        assert np.ptp(products) < 0.1 * tolerance * 32


@pytest.mark.parametrize("position", [0, 1, 4097, 99_999, 2**26 - 1, -12345])
def test_far_positions_have_the_angles_of_float64(position):
    frequencies = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    expected = np.sin(np.float64(position) * frequencies)
    y = np.array(sinusoid(np.array([position]), 64, layout="concatenated"))[0, :32]
    np.testing.assert_allclose(y, expected, atol=2e-7 + abs(position) * 1.2e-11)


def test_fractional_positions_lie_between_whole_ones():
    expected = np.sin(1234.375 * 10000.0 ** (-np.arange(0, 8, 2) / 8))
    y = np.array(sinusoid(np.array([1234.375], "float32"), 8, layout="concatenated"))
    np.testing.assert_allclose(y[0, :4], expected, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [None, False, True], ids=["eager", "graph", "xla"])
@pytest.mark.parametrize("positions", [[0, 1, 4097, 99_999, 2**26 - 1], [0.1, 7.3, 1234.7]])
def test_angles_of_a_float64_computation_have_its_digits(positions, jit_compile):
    """In float32 the angle of 0.1 alone is off by 1e-9."""
    angle = np.array(positions, "float64")[:, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)

    def run(x):
        encoding = sinusoid(positions, 8, "concatenated", dtype="float64")
        yarn = {"type": "yarn", "factor": 3.0, "original_length": 10**9}  # keeps all frequencies
        return encoding, rotate(x, positions, scaling=yarn)

    if jit_compile is not None:
        run = tf.function(run, jit_compile=jit_compile)
    encoding, turned = run(
        tf.constant(np.repeat([[[1.0, 0.0]]], 4, 2) + np.zeros((1, len(angle), 1)))
    )
    assert encoding.dtype == turned.dtype == "float64"
    expected = np.concatenate([np.sin(angle), np.cos(angle)], -1)
    np.testing.assert_allclose(encoding, expected, rtol=0, atol=1e-12)
    amplitude = 0.1 * np.log(3.0) + 1
    expected = amplitude * np.concatenate([np.cos(angle), np.sin(angle)], -1)
    np.testing.assert_allclose(turned[0], expected, rtol=0, atol=1e-12)


def test_the_encoding_of_a_half_precision_computation_is_rounded_once():
    exact = sinusoid(np.arange(5000, 5003), 8)
    half = sinusoid(np.arange(5000, 5003), 8, dtype="bfloat16")
    np.testing.assert_array_equal(half, tf.cast(exact, "bfloat16"))


def test_a_start_index_in_a_narrow_integer_dtype_does_not_overflow():
    narrow = sinusoid(token_positions(3, np.uint8(254)), 8, "opennmt_tf")
    np.testing.assert_array_equal(narrow, sinusoid([254, 255, 256], 8, "opennmt_tf"))
    np.testing.assert_array_equal(sinusoid(np.array([255], "uint8"), 8, "opennmt_tf")[0], narrow[1])


def test_neighbours_far_out_differ_in_bfloat16():
    x = tf.ones((1, 2, 8), "bfloat16")
    y = rotate(x, np.array([4096, 4097]))
    assert y.dtype == "bfloat16"
    assert np.max(np.abs(tf.cast(y[:, 0] - y[:, 1], "float32"))) > 0.5


@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_permuted_projections_give_the_same_products_in_the_other_convention(rotary_dim):
    x = keras.random.normal((1, 5, 6))
    kernels = [keras.random.normal((6, 2, 8)) for _ in range(2)]

    def products(kernels, convention):
        query, key = (
            rotate(tf.einsum("btm,mnd->btnd", x, kernel), np.arange(5), convention=convention,
                   rotary_dim=rotary_dim)
            for kernel in kernels
        )  # fmt: skip
        return tf.einsum("btnd,bsnd->bnts", query, key)

    half = products(kernels, "half_split")
    moved = [permute_features(k, "half_split", "interleaved", rotary_dim) for k in kernels]
    np.testing.assert_allclose(products(moved, "interleaved"), half, atol=1e-4)
    back = [permute_features(k, "interleaved", "half_split", rotary_dim) for k in moved]
    np.testing.assert_array_equal(back, kernels)
    assert np.max(np.abs(products(kernels, "interleaved") - half)) > 0.1


def test_partial_rotation_leaves_the_other_features():
    x = keras.random.normal((1, 3, 8))
    y = rotate(x, np.arange(3), rotary_dim=4)
    np.testing.assert_array_equal(y[..., 4:], x[..., 4:])
    np.testing.assert_allclose(y[..., :4], rotate(x[..., :4], np.arange(3)), atol=1e-6)


def test_every_example_may_have_its_own_positions():
    x = keras.random.normal((2, 3, 2, 8))
    positions = np.array([[0, 1, 2], [5, 6, 7]])
    y = rotate(x, positions)
    for example in range(2):
        np.testing.assert_allclose(
            y[example], rotate(x[example : example + 1], positions[example])[0], atol=1e-6
        )


def test_all_entries_between_the_positions_and_the_features_turn_alike():
    x = keras.random.normal((2, 3, 4, 3, 8))
    positions = np.array([[0, 1, 2], [5, 6, 7]])
    y = rotate(x, positions)
    for i, j in np.ndindex(4, 3):
        np.testing.assert_array_equal(y[:, :, i, j], rotate(x[:, :, i, j], positions))


@pytest.mark.parametrize("compile_it", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager(compile_it):
    x, positions = keras.random.normal((2, 3, 2, 8)), np.array([[0, 1, 2], [90005, 6, 7]])
    run = tf.function(rotate, jit_compile=compile_it)
    np.testing.assert_allclose(run(x, tf.constant(positions)), rotate(x, positions), atol=1e-6)


@pytest.mark.parametrize(("change", "message"), [
    ({"x": np.ones((1, 2, 5), "float32")}, r"even.*Received: rotary_dim=5"),
    ({"rotary_dim": 3}, r"Received: rotary_dim=3"),
    ({"rotary_dim": 8}, r"Received: rotary_dim=8"),
    ({"convention": "rotated"}, r"one of.*Received: convention='rotated'"),
    ({"scaling": {"type": "cubic", "factor": 2}}, r"Received: scaling=\{'type': 'cubic'"),
    ({"scaling": {"type": "yarn", "factor": 2}}, r"original_length.*Received: scaling="),
    ({"scaling": {"type": "linear", "factor": 0}}, r"positive.*Received: scaling="),
    ({"scaling": {"type": "linear", "factor": 2, "beta_fast": 3}}, r"Received: scaling="),
    ({"scaling": 2.0}, r"Received: scaling=2.0"),
    ({"base": 1}, r"Received: base=1"),
    ({"positions": np.ones((1, 2), "float16")}, r"integers.*Received: positions.dtype=float16"),
    ({"positions": np.array([True, False])}, "Received: positions.dtype=bool"),
    ({"positions": np.arange(3)}, r"Received: x.shape=\(1, 2, 6\), positions.shape=\(3,\)"),
    ({"positions": 3}, r"Received: x.shape=\(1, 2, 6\), positions.shape=\(\)"),
    ({"x": np.ones((2, 6), "float32")}, r"Received: x.shape=\(2, 6\), positions.shape=\(2,\)"),
])  # fmt: skip
def test_bad_rotations_are_refused_with_what_was_received(change, message):
    arguments = {"x": np.ones((1, 2, 6), "float32"), "positions": np.arange(2)} | change
    with pytest.raises(ValueError, match=message):
        rotate(**arguments)


@pytest.mark.parametrize(("arguments", "message"), [
    ((4, "stacked"), r"Received: layout='stacked'"),
    ((0,), r"Received: dim=0"),
    ((5, "opennmt_tf"), r"even number.*Received: dim=5"),
    ((2, "opennmt_tf"), r"at least 4. Received: dim=2"),
    ((4, "opennmt_tf", 1.0), r"Received: base=1.0"),
])  # fmt: skip
def test_bad_sinusoids_are_refused_with_what_was_received(arguments, message):
    with pytest.raises(ValueError, match=message):
        sinusoid(np.arange(2), *arguments)
