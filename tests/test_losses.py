import numpy as np
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.losses import token_loss


def _smoothing(case):
    return 0.1 if "smoothing" in case["id"] else 0.0


@pytest.mark.parametrize("case", cases("losses"))
def test_mean_over_real_tokens_is_the_reference(case):
    total, count = token_loss(case["labels"], case["logits"], case["mask"], _smoothing(case))
    assert float(total / count) == pytest.approx(case["expect"], abs=1e-6)


@pytest.mark.parametrize("case", cases("losses"))
def test_splitting_a_batch_changes_nothing(case):
    parts = [
        token_loss(
            case["labels"][part],
            case["logits"][part],
            np.array(case["mask"][part]),
            _smoothing(case),
        )
        for part in (slice(0, 1), slice(1, 3))
    ]
    total = sum(float(total) for total, _ in parts)
    count = sum(float(count) for _, count in parts)
    assert total / count == pytest.approx(case["expect"], abs=1e-6)


def test_padding_reaches_neither_loss_nor_gradient():
    logits = tf.constant([[[0.5, -1.0, 2.0], [np.nan, np.inf, 3.0]]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total, count = token_loss([[2, -7]], logits, [[True, False]], 0.1)
    gradient = tape.gradient(total, logits).numpy()
    assert np.isfinite(float(total))
    assert float(count) == 1
    assert np.isfinite(gradient[0, 0]).all()
    np.testing.assert_array_equal(gradient[0, 1], 0)


def test_no_real_token_gives_zero_and_zero():
    total, count = token_loss([[1]], [[[0.0, 1.0]]], [[False]])
    assert (float(total), float(count)) == (0, 0)


def test_sample_weights_weigh_loss_and_count():
    labels, logits = [[0, 1], [1, 1]], np.random.default_rng(0).normal(size=(2, 2, 2))
    mask = np.array([[True, True], [True, False]])
    weighted = token_loss(labels, logits, mask, sample_weight=[2.0, 1.0])
    twice = token_loss(
        [*labels, labels[0]], np.concatenate([logits, logits[:1]]), np.concatenate([mask, mask[:1]])
    )
    np.testing.assert_allclose(weighted, twice, rtol=1e-6)


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(tf.random.normal([1, 3000, 4]), "bfloat16")
    labels, mask = tf.zeros([1, 3000], "int32"), tf.ones([1, 3000], "bool")
    total, count = token_loss(labels, logits, mask)
    assert total.dtype == count.dtype == tf.float32
    assert float(count) == 3000  # bfloat16 cannot count so far
    assert float(total) == pytest.approx(
        float(token_loss(labels, tf.cast(logits, "float32"), mask)[0]), rel=1e-6
    )


def test_gradient_is_that_of_finite_differences():
    logits = tf.random.normal([2, 3, 4], dtype="float64")
    labels, mask = [[0, 1, 2], [3, 0, 0]], [[True, True, True], [True, False, False]]
    theoretical, numerical = tf.test.compute_gradient(
        lambda logits: token_loss(labels, logits, mask, 0.2)[0], [logits]
    )
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-7)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"boolean.*Received"):
        token_loss([[1]], [[[0.0, 1.0]]], [[1.0]])


def test_smoothing_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"Received: label_smoothing=1\.0"):
        token_loss([[1]], [[[0.0, 1.0]]], None, label_smoothing=1.0)
