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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("shift", [-500.0, -95.0, -40.0, 40.0, 85.0, 95.0, 500.0])
def test_logits_around_the_limits_of_float32_change_nothing(arguments, shift, mode, smoothing):
    """`exp` overflows above 88 and vanishes below -88: a common shift must not matter."""
    features, table, labels, weights = arguments
    features = tf.concat([features, tf.fill([TOKENS, 1], shift)], axis=1)
    table = tf.concat([table, tf.ones([VOCABULARY, 1])], axis=1)  # (V, d + 1)
    fast = projected_cross_entropy
    if mode != "eager":
        traced = tf.function(
            lambda *given: projected_cross_entropy(*given, smoothing), jit_compile=mode == "xla"
        )
        fast = lambda f, t, y, w, s: traced(f, t, y, w)  # noqa: E731
    shifted = features, table, labels, weights
    found = _value_and_gradients(fast, shifted, smoothing)
    expected = _value_and_gradients(_plain, shifted, smoothing)
    for got, want in zip(found, expected, strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max(1, abs(shift) / 10))


def test_one_row_beyond_the_limits_spoils_no_other(arguments):
    features, table, labels, weights = arguments
    features = tf.concat([features[:3], 1e3 * features[3:4], features[4:]], axis=0)
    found = _value_and_gradients(projected_cross_entropy, (features, *arguments[1:]), 0.1)
    expected = _value_and_gradients(_plain, (features, table, labels, weights), 0.1)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("feature_size", "table_size", "weight_size"),
    [
        (1e30, 1e-30, 1),
        (1e-30, 1e30, 1),
        (1e-30, 1, 1),
        (1, 1, 1e30),
        (1, 1, 1e-30),
        (1e-3, 1e3, 1),
    ],
)
def test_factors_near_the_limits_of_float32_lose_no_gradient(
    arguments, feature_size, table_size, weight_size
):
    features, table, labels, weights = arguments
    sized = feature_size * features, table_size * table, labels, weight_size * weights
    found = _value_and_gradients(projected_cross_entropy, sized, 0.1)
    expected = _value_and_gradients(_plain, sized, 0.1)
    for got, want in zip(found, expected, strict=True):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_tokens_without_weight_give_zero_loss_and_zero_gradients(arguments):
    features, table, labels, weights = arguments
    for found in _value_and_gradients(
        projected_cross_entropy, (features, table, labels, 0 * weights), 0.1
    ):
        np.testing.assert_array_equal(found, 0)


def test_ordinary_logits_take_the_short_way(arguments, monkeypatch):
    """The largest logit is looked for only if need be: that is what makes the loss fast."""
    features, table, labels, weights = arguments
    monkeypatch.setattr(tf, "reduce_max", _only_of_matrices_as_wide_as(WIDTH, tf.reduce_max))
    projected_cross_entropy(features, table, labels, weights)
    with pytest.raises(AssertionError):
        projected_cross_entropy(100 * features, table, labels, weights)


def _only_of_matrices_as_wide_as(width, reduce_max):
    def checked(x, *arguments, **options):
        assert len(x.shape) == 1 or x.shape[1] == width
        return reduce_max(x, *arguments, **options)

    return checked


def test_no_token_gives_zero_loss_and_zero_gradients(arguments):
    features, _, labels, weights = (x[:0] for x in arguments)
    value, *gradients = _value_and_gradients(
        projected_cross_entropy, (features, arguments[1], labels, weights), 0.1
    )
    assert float(value) == 0
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0)
