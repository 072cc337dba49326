"""The additive score as a function: its masks, sizes, gradients, dtypes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import additive_attention

RNG = np.random.default_rng(6)


def _inputs(batch=2, queries=3, keys=4, dtype="float32"):
    shapes = ((batch, queries, 5), (batch, keys, 5), (batch, keys, 6), (5,))
    return [tf.constant(RNG.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize("normalised", [False, True])
def test_context_is_the_mean_weighted_by_the_published_score(normalised):
    query, keys, values, vector = (x.numpy() for x in _inputs())
    bias, scale = (RNG.standard_normal(5), 0.7) if normalised else (np.zeros(5), None)
    used = scale * vector / np.linalg.norm(vector) if normalised else vector
    scores = np.tanh(query[:, :, None] + keys[:, None] + bias) @ used
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    arguments = {"bias": bias, "score_scale": scale} if normalised else {}
    context, weights = additive_attention(query, keys, values, vector, **arguments)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(context, expected @ values, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4), (1, 3, 4)])
def test_masked_keys_weigh_nothing_even_when_they_are_nan(dtype, shape):
    query, keys, values, vector = _inputs(dtype=dtype)
    mask = RNG.random(shape) < 0.6
    mask[..., 1] = False
    mask[0] = False
    poison = tf.constant([0, np.nan, 0, 0], dtype)[None, :, None]
    inputs = [query, keys + poison, values + poison, vector]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        context, weights = additive_attention(*inputs, mask=mask)
        loss = tf.reduce_sum(tf.cast(context, "float32") ** 2)
    full = np.broadcast_to(mask if mask.ndim == 3 else mask[:, None], (2, 3, 4))
    assert np.all(tf.cast(weights, "float32").numpy()[~full] == 0)
    assert np.all(tf.cast(context, "float32").numpy()[~full.any(-1)] == 0)
    for gradient in tape.gradient(loss, inputs):
        assert np.all(np.isfinite(tf.cast(gradient, "float32")))


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 4), (2, 0, 4), (2, 3, 0), (2, 1, 1)])
def test_empty_and_single_axes(batch, queries, keys):
    for run in (additive_attention, tf.function(additive_attention)):
        context, weights = run(*_inputs(batch, queries, keys), causal=True)
        assert context.shape == (batch, queries, 6)
        assert weights.shape == (batch, queries, keys)
        assert np.all(np.isfinite(context))


def test_score_vector_of_zero_length_has_finite_gradients():
    query, keys, values, vector = _inputs()
    vector = tf.zeros_like(vector)
    with tf.GradientTape() as tape:
        tape.watch(vector)
        context, _ = additive_attention(query, keys, values, vector, score_scale=1.0)
        loss = tf.reduce_sum(context**2)
    assert np.all(np.isfinite(tape.gradient(loss, vector)))
