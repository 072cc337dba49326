"""Dot-product attention against reference numbers, and the rules of its masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.ops import dot_product_attention

DTYPES = ["float32", "float16", "bfloat16"]


def _random(*shapes, dtype="float32"):
    return [keras.random.normal(shape, dtype=dtype) for shape in shapes]


def _projected(case):
    return [np.array(case[f"projected_{name}"], "float32") for name in ("query", "key", "value")]


@pytest.mark.parametrize("case", cases("attention", "grouped"))
def test_grouped_heads_give_the_reference_numbers(case):
    mask = None if case["attention_mask"] is None else np.array(case["attention_mask"])
    heads, weights = dot_product_attention(*_projected(case), mask=mask, return_weights=True)
    np.testing.assert_allclose(weights, case["expect"]["weights"], atol=1e-5)
    np.testing.assert_allclose(heads, case["expect"]["heads"], atol=1e-5)
    if mask is not None:
        assert np.all(np.array(weights)[~np.broadcast_to(mask, weights.shape)] == 0)


@pytest.mark.parametrize("case", cases("attention", "causal-continues"))
def test_causal_queries_that_continue_a_cache_see_all_of_it(case):
    heads, weights = dot_product_attention(*_projected(case), causal=True, return_weights=True)
    np.testing.assert_allclose(weights, case["expect"]["weights"], atol=1e-5)
    np.testing.assert_allclose(heads, case["expect"]["heads"], atol=1e-5)


@pytest.mark.parametrize("case", cases("attention", "grouped-causal"))
def test_causal_window_and_padding_arguments_build_the_same_mask(case):
    """The reference masks are the arguments' own: causal, a window of 2, left padding."""
    mask = np.array(case["attention_mask"])
    padding = mask[:, 0].any(axis=1) if "padded" in case["id"] else None
    heads = dot_product_attention(
        *_projected(case), mask=padding, causal=True, window=2 if "window" in case["id"] else None
    )
    np.testing.assert_allclose(heads, case["expect"]["heads"], atol=1e-5)


@pytest.mark.parametrize("shape", [
    (2, 5), (1, 5), (2, 1, 5), (2, 3, 5), (1, 3, 5), (2, 3, 1),
    (2, 4, 3, 5), (1, 4, 3, 5), (2, 1, 3, 5), (2, 4, 1, 5), (1, 1, 3, 5), (2, 4, 3, 1),
])  # fmt: skip
@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (True, 2), (False, 2)])
def test_every_shape_of_mask_combines_with_causal_and_window(shape, causal, window):
    query, key, value = _random((2, 3, 4, 6), (2, 5, 2, 6), (2, 5, 2, 7))
    mask = np.random.default_rng(3).random(shape) < 0.6
    output, weights = dot_product_attention(
        query, key, value, mask, causal, window, return_weights=True
    )
    full = mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
    full = np.broadcast_to(full, (2, 4, 3, 5)).copy()
    for t in range(3):
        for s in range(5):
            distance = t + 2 - s
            full[:, :, t, s] &= not (causal and distance < 0)
            full[:, :, t, s] &= window is None or abs(distance) < window
    key, value = (np.repeat(np.array(x), 2, axis=2) for x in (key, value))
    scores = np.einsum("btnd,bsnd->bnts", query, key) / np.sqrt(6)
    expected = np.where(full, np.exp(scores), 0)
    expected = expected / np.maximum(expected.sum(-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(output, np.einsum("bnts,bsnd->btnd", expected, value), atol=1e-5)
    assert np.all(np.array(weights)[~full] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_query_without_keys_gets_zeros_and_finite_gradients(dtype):
    query, key, value = (tf.constant(x) for x in _random(*[(2, 3, 2, 4)] * 3, dtype=dtype))
    mask = np.array([[True, True, False], [False, False, False]])
    with tf.GradientTape() as tape:
        tape.watch([query, key, value])
        output, weights = dot_product_attention(query, key, value, mask, return_weights=True)
        loss = tf.reduce_sum(tf.cast(output, "float32") ** 2)
    assert output.dtype == weights.dtype == dtype
    assert np.all(keras.ops.convert_to_numpy(keras.ops.cast(weights[1], "float32")) == 0)
    assert np.all(keras.ops.convert_to_numpy(keras.ops.cast(output[1], "float32")) == 0)
    assert np.all(tf.cast(weights[0, :, :, 2], "float32") == 0)
    for gradient in tape.gradient(loss, [query, key, value]):
        assert np.all(np.isfinite(tf.cast(gradient, "float32")))


@pytest.mark.parametrize("mask", [
    np.array([[True, True, False]]), np.array([[[True, True, False], [True, False, False]]]),
], ids=["padding", "per-query"])  # fmt: skip
def test_nan_of_a_hidden_key_reaches_no_output_and_no_gradient(mask):
    query, key, value = _random((1, 2, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4))
    broken = np.array([0, 0, np.nan], "float32")[None, :, None, None]
    outputs, gradients = [], []
    for poison in (0.0, broken):
        inputs = [query, key + poison, value + poison]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = dot_product_attention(*inputs, mask=mask)
            loss = tf.reduce_sum(output**2)
        outputs.append(output)
        gradients.append(tape.gradient(loss, inputs))
    np.testing.assert_array_equal(*outputs)
    for clean, poisoned in zip(*gradients, strict=True):
        np.testing.assert_array_equal(clean, poisoned)


@pytest.mark.parametrize("shared", ["query", "key"])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown batch"])
def test_one_side_may_be_shared_by_all_examples(shared, unknown):
    sizes = {"query": 5, "key": 5, shared: 1}
    query, key = _random((sizes["query"], 3, 4, 6), (sizes["key"], 7, 2, 6))
    mask = np.arange(7)[None] < np.array([7, 4, 0, 1, 2])[:, None]
    run = dot_product_attention
    if unknown:
        batch = {name: size if size == 1 else None for name, size in sizes.items()}
        keys = tf.TensorSpec((batch["key"], None, 2, 6))
        run = tf.function(run, input_signature=[
            tf.TensorSpec((batch["query"], None, 4, 6)), keys, keys,
            tf.TensorSpec((None, None), "bool"),
        ])  # fmt: skip
    repeated = [tf.repeat(x, 5 // len(x), axis=0) for x in (query, key, key)]
    np.testing.assert_allclose(
        run(query, key, key, mask), dot_product_attention(*repeated, mask), atol=1e-6
    )


def test_learned_queries_with_a_batch_of_one_equal_the_repeated_ones():
    query, key = _random((1, 3, 4, 6), (5, 7, 2, 6))
    shared = dot_product_attention(query, key, key)
    repeated = dot_product_attention(tf.repeat(query, 5, axis=0), key, key)
    np.testing.assert_allclose(shared, repeated, atol=1e-6)


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 4), (2, 0, 4), (2, 1, 1), (2, 3, 0)])
@pytest.mark.parametrize("masked", [False, True])
def test_empty_and_single_axes(batch, queries, keys, masked):
    query, key = _random((batch, queries, 4, 6), (batch, keys, 2, 6))
    mask = np.ones((batch, keys), bool) if masked else None
    for run in (dot_product_attention, tf.function(dot_product_attention)):
        output, weights = run(query, key, key, mask=mask, causal=True, return_weights=True)
        assert output.shape == (batch, queries, 4, 6)
        assert weights.shape == (batch, 4, queries, keys)
        assert np.all(np.isfinite(output))


@pytest.mark.parametrize("compile_it", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager_with_unknown_sizes(compile_it):
    spec = tf.TensorSpec((None, None, 4, 6))
    key_spec = tf.TensorSpec((None, None, 2, 6))
    run = tf.function(
        lambda q, k, v, m: dot_product_attention(q, k, v, m, causal=True, window=3),
        input_signature=[spec, key_spec, key_spec, tf.TensorSpec((None, None), "bool")],
        jit_compile=compile_it,
    )
    query, key = _random((3, 5, 4, 6), (3, 5, 2, 6))
    mask = np.arange(5)[None] < np.array([5, 2, 0])[:, None]
    np.testing.assert_allclose(
        run(query, key, key, mask),
        dot_product_attention(query, key, key, mask, causal=True, window=3),
        atol=1e-6,
    )


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_half_precision_is_within_its_precision_of_float32(dtype):
    inputs = _random((2, 6, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))
    exact = dot_product_attention(*inputs, causal=True)
    rounded = dot_product_attention(*(tf.cast(x, dtype) for x in inputs), causal=True)
    np.testing.assert_allclose(tf.cast(rounded, "float32"), exact, atol=0.04)


def _entropy_and_gradient(size, scale):
    query, key = _random((64, 1, 1, size), (64, 32, 1, size))
    value = keras.random.normal((64, 32, 1, 1))
    with tf.GradientTape() as tape:
        tape.watch(query)
        output, weights = dot_product_attention(query, key, value, scale=scale, return_weights=True)
        loss = tf.reduce_sum(output)
    entropy = -tf.reduce_sum(weights * tf.math.log(weights + 1e-20), axis=-1)
    # The score's part of the gradient: what the softmax passes on, whatever the size of the keys.
    gradient = tf.norm(tape.gradient(loss, query), axis=-1) / (
        (size**0.5) * (size**-0.5 if scale is None else scale)
    )
    return float(tf.reduce_mean(entropy)), float(tf.reduce_mean(gradient))


def test_scores_are_divided_by_sqrt_d_because_the_softmax_saturates_without():
    """Entropy of 32 keys (at most ln 32 = 3.47) and the gradient through the softmax, against d."""
    sizes = (4, 64, 1024)
    scaled = np.array([_entropy_and_gradient(size, None) for size in sizes])
    plain = np.array([_entropy_and_gradient(size, 1.0) for size in sizes])
    assert np.ptp(scaled[:, 0]) < 0.15, "with the scale the entropy does not depend on d"
    assert np.ptp(scaled[:, 1]) < 0.3 * scaled[0, 1], "nor does the gradient"
    assert plain[-1, 0] < 0.1 * plain[0, 0], "without it a wide head attends to one key"
    assert plain[-1, 1] < 0.35 * plain[0, 1], "and passes almost no gradient"


@pytest.mark.parametrize(("change", "message"), [
    ({"mask": np.ones((2, 5), "float32")}, r"boolean.*Received: mask.dtype="),
    ({"mask": np.ones((3, 5), bool)}, r"mask\[None\].*Received: mask.shape=\(3, 5\)"),
    ({"mask": np.ones((2, 4), bool)}, r"Received: mask.shape=\(2, 4\)"),
    ({"mask": np.ones((2, 3, 3, 5), bool)}, r"Received: mask.shape=\(2, 3, 3, 5\)"),
    ({"mask": np.ones((2, 1, 4, 3, 5), bool)}, r"Received: mask.shape=\(2, 1, 4, 3, 5\)"),
    ({"mask": np.ones((5,), bool)}, r"Received: mask.shape=\(5,\)"),
    ({"window": -1}, r"positive integer.*Received: window=-1"),
    ({"window": 0}, r"Received: window=0"),
    ({"method": "sparse"}, r"Received: method='sparse'"),
    ({"key": np.ones((2, 5, 3, 6), "float32")}, r"multiple.*Received: query.shape=\(2, 3, 4, 6\)"),
    ({"key": np.ones((2, 5, 2, 4), "float32")}, r"features.*Received: query.shape="),
    ({"key": np.ones((2, 4, 2, 6), "float32")}, r"equally many.*Received: query.shape="),
    ({"key": np.ones((2, 5, 6), "float32")}, r"axes.*Received: query.shape="),
    ({"query": np.ones((3, 3, 4, 6), "float32")}, r"batch sizes.*Received: query.shape="),
])  # fmt: skip
def test_bad_arguments_are_refused_with_what_was_received(change, message):
    arguments = {
        "query": np.ones((2, 3, 4, 6), "float32"),
        "key": np.ones((2, 5, 2, 6), "float32"),
        "value": np.ones((2, 5, 2, 6), "float32"),
    } | change
    with pytest.raises(ValueError, match=message):
        dot_product_attention(**arguments)
