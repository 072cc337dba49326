import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import TokenLoss, token_loss
from keras_attn.special_tokens import PADDING

LABELS = np.array([[3, 2, 0, 0], [1, 0, 4, 2], [0, 0, 0, 0]])
REAL = np.array([[True, True, False, False], [True] * 4, [False] * 4])  # the 0 inside is a token


@pytest.fixture
def logits():
    return tf.constant(np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32"))


def _mean(logits, mask, *arguments):
    total, count = token_loss(LABELS, logits, mask, *arguments)
    return float(total / count)


def test_it_is_the_mean_over_the_labels_before_the_padding(logits):
    assert PADDING == 0
    found = float(TokenLoss(0.1)(LABELS, logits))
    assert found == pytest.approx(_mean(logits, REAL, 0.1), abs=1e-6)


def test_it_sees_the_keras_mask_of_the_logits_too(logits):
    mask = np.array([[True, False, True, True]] * 3)
    expected = _mean(logits, REAL & mask)
    logits._keras_mask = tf.constant(mask)
    assert float(TokenLoss()(LABELS, logits)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_the_count_is_of_weights(logits, shape):
    weights = np.random.default_rng(1).uniform(size=shape).astype("float32")
    found = float(TokenLoss()(LABELS, logits, sample_weight=weights))
    assert found == pytest.approx(_mean(logits, REAL, 0.0, weights), abs=1e-6)


@pytest.mark.parametrize("shape", [(2, 4), (0, 4), (2, 0)])
def test_no_real_token_is_a_loss_of_zero_with_a_gradient_of_zero(shape):
    logits = tf.Variable(np.full((*shape, 5), 0.5, "float32"))
    with tf.GradientTape() as tape:
        loss = TokenLoss()(tf.zeros(shape, tf.int32), logits)
    np.testing.assert_array_equal(tape.gradient(loss, logits), np.zeros((*shape, 5)))
    assert float(loss) == 0


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_it_computes_in_float32_at_least_in_a_graph_and_with_xla(logits, dtype, jit_compile):
    low = tf.cast(logits, dtype)
    found = tf.function(TokenLoss(), jit_compile=jit_compile)(LABELS, low)
    assert found.dtype == (tf.float64 if dtype == "float64" else tf.float32)
    assert float(found) == pytest.approx(_mean(low, REAL), abs=1e-6)


def test_it_comes_back_from_its_configuration():
    config = keras.losses.serialize(TokenLoss(0.2, name="mine"))
    again = keras.losses.deserialize(config)
    assert (type(again), again.label_smoothing, again.name) == (TokenLoss, 0.2, "mine")


BAD_FACTORS = [
    {"label_smoothing": -0.1},
    {"label_smoothing": None},
    {"label_smoothing": "a"},
    {"z_loss": None},
    {"z_loss": -1},
]


@pytest.mark.parametrize("options", BAD_FACTORS)
def test_a_factor_that_a_loss_cannot_have_is_refused_when_it_is_made(options):
    with pytest.raises(ValueError, match="Received: "):
        TokenLoss(**options)


def test_the_z_loss_is_that_of_token_loss_and_comes_back():
    labels, logits = np.array([[3, 2, 0]]), np.linspace(-1, 2, 15).reshape(1, 3, 5)
    loss = TokenLoss.from_config(TokenLoss(0.1, z_loss=0.01).get_config())
    total, count = token_loss(labels, logits, labels != 0, 0.1, z_loss=0.01)
    np.testing.assert_allclose(loss(labels, tf.constant(logits)), total / count)
