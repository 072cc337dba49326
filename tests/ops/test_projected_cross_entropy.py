import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import token_loss
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy

TOKENS, WIDTH, VOCABULARY = 7, 5, 11


@pytest.fixture
def arguments():
    generator = np.random.default_rng(0)
    return (
        tf.constant(generator.normal(size=(TOKENS, WIDTH)), tf.float32),
        tf.constant(generator.normal(size=(VOCABULARY, WIDTH)), tf.float32),
        tf.constant(generator.integers(0, VOCABULARY, TOKENS), tf.int32),
        tf.constant([1, 1, 0, 2, 1, 0.5, 1], tf.float32),
    )


def _plain(features, table, labels, weights, smoothing):
    logits = tf.matmul(features, table, transpose_b=True)
    return token_loss(labels[None], logits[None], None, smoothing, sample_weight=weights[None])[0]


def _value_and_gradients(function, arguments, smoothing):
    with tf.GradientTape() as tape:
        tape.watch(arguments[:2])
        value = 3 * function(*arguments, smoothing)
    return [value, *tape.gradient(value, arguments[:2])]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_value_and_gradients_are_those_of_the_plain_loss(arguments, smoothing, mode):
    fast = projected_cross_entropy
    if mode != "eager":
        fast = tf.function(
            lambda f, t, y, w, s=smoothing: projected_cross_entropy(f, t, y, w, s),
            jit_compile=mode == "xla",
        )
        fast = (lambda traced: lambda f, t, y, w, s: traced(f, t, y, w))(fast)
    found = _value_and_gradients(fast, arguments, smoothing)
    expected = _value_and_gradients(_plain, arguments, smoothing)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_large_logits_neither_overflow_nor_lose_the_gradient(arguments, size):
    features, table, labels, weights = arguments
    found = _value_and_gradients(
        projected_cross_entropy, (size * features, table, labels, weights), 0.0
    )
    expected = _value_and_gradients(_plain, (size * features, table, labels, weights), 0.0)
    for got, want in zip(found, expected, strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want, rtol=1e-4)


def test_no_token_gives_zero_loss_and_zero_gradients(arguments):
    features, _, labels, weights = (x[:0] for x in arguments)
    value, *gradients = _value_and_gradients(
        projected_cross_entropy, (features, arguments[1], labels, weights), 0.1
    )
    assert float(value) == 0
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0)
