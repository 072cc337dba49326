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


def _in_mode(function, mode):
    return function if mode == "eager" else tf.function(function, jit_compile=mode == "xla")


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_z_loss_and_its_gradient_are_those_of_the_plain_loss(arguments, size, mode):
    features, table, labels, weights = arguments
    given = size * features, table, labels, weights

    def fast(features, table, labels, weights, smoothing):
        return projected_cross_entropy(features, table, labels, weights, smoothing, 0.01)

    def plain(features, table, labels, weights, smoothing):
        logits = tf.matmul(features, table, transpose_b=True)[None]
        labels, weights = labels[None], weights[None]
        return token_loss(labels, logits, None, smoothing, weights, z_loss=0.01)[0]

    traced = _in_mode(lambda f, t, y, w: fast(f, t, y, w, 0.1), mode)
    found = _value_and_gradients(lambda f, t, y, w, s: traced(f, t, y, w), given, 0.1)
    expected = _value_and_gradients(plain, given, 0.1)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_the_gradient_with_z_loss_is_that_of_finite_differences(arguments):
    _, _, labels, weights = arguments
    theoretical, numerical = tf.test.compute_gradient(
        lambda features, table: projected_cross_entropy(
            features, table, labels, weights, 0.1, 0.05
        ),
        arguments[:2],
        delta=2.0**-6,
    )
    for got, want in zip(theoretical, numerical, strict=True):
        np.testing.assert_allclose(got, want, rtol=0.01, atol=5e-3)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("label", [-1, VOCABULARY, 2**32])
def test_a_label_outside_of_the_vocabulary_is_an_error_and_where_there_is_none_no_number(
    arguments, label, mode
):
    features, table, labels, weights = arguments
    given = features, table, tf.constant([label, *labels[1:].numpy()], tf.int64), weights
    traced = _in_mode(lambda f, t, y, w: projected_cross_entropy(f, t, y, w, 0.1), mode)

    def fast(features, table, labels, weights, smoothing):
        return traced(features, table, labels, weights)

    if mode != "xla":
        error = ValueError if mode == "eager" else tf.errors.InvalidArgumentError
        with pytest.raises(error, match=rf"Received: label\D*{label}\D+{VOCABULARY}(?!\d)"):
            fast(*given, 0.1)
        return
    total, d_features, d_table = _value_and_gradients(fast, given, 0.1)
    assert np.isnan(float(total))
    np.testing.assert_array_equal(d_features[0], 0)
    others = features, table, labels, tf.concat([[0.0], weights[1:]], axis=0)
    _, *expected = _value_and_gradients(projected_cross_entropy, others, 0.1)
    np.testing.assert_allclose(d_features, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(d_table, expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_what_a_token_without_weight_has_is_ignored(arguments, mode):
    features, table, labels, weights = arguments
    broken = np.array(features), np.array(labels)
    broken[0][2], broken[1][2] = np.nan, -7
    given = tf.constant(broken[0]), table, tf.constant(broken[1]), weights
    traced = _in_mode(lambda f, t, y, w: projected_cross_entropy(f, t, y, w, 0.1), mode)
    found = _value_and_gradients(lambda f, t, y, w, s: traced(f, t, y, w), given, 0.1)
    expected = _value_and_gradients(projected_cross_entropy, arguments, 0.1)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("index", "shape"),
    [(2, [1]), (3, [1]), (2, [TOKENS, 1]), (3, [TOKENS, 1]), (0, [1, WIDTH]), (1, [VOCABULARY, 1])],
)
def test_shapes_that_do_not_fit_are_refused(arguments, index, shape):
    given = [*arguments]
    given[index] = tf.ones(shape, given[index].dtype)
    with pytest.raises(ValueError, match=r"for nothing is broadcast. Received: features\.shape="):
        projected_cross_entropy(*given)


@pytest.mark.parametrize("factors", [(1.0, 0.0), (-0.1, 0.0), (0.0, -1.0), (0.0, np.nan)])
def test_factors_outside_their_range_are_refused(arguments, factors):
    with pytest.raises(ValueError, match=r"Received: (label_smoothing|z_loss)="):
        projected_cross_entropy(*arguments, *factors)
