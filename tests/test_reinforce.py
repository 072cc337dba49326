"""The gradient of REINFORCE against what it estimates."""

import numpy as np
import pytest
import reference
import tensorflow as tf

from keras_attn.ops import (
    categorical_entropy,
    categorical_log_probability,
    gaussian_log_probability,
)
from keras_attn.reinforce import reinforce

(CASE,) = (case.values[0] for case in reference.cases("vision", "ram-location"))


def test_the_location_is_a_constant_of_its_log_probability():
    mean = tf.constant([CASE["mean"]])
    noise = tf.constant([CASE["location"]]) - mean
    with tf.GradientTape() as tape:
        tape.watch(mean)
        value = gaussian_log_probability(mean + noise, mean, CASE["stddev"])
    np.testing.assert_allclose(value, [CASE["expect"]["log_probability"]], rtol=1e-6)
    gradient = tape.gradient(value, mean)[0]
    np.testing.assert_allclose(gradient, CASE["expect"]["gradient_wrt_mean"], rtol=1e-5)


def _enumerated(logits, rewards, baseline, log_probability):
    """The gradient of the surrogate, averaged over all choices by their probabilities."""
    total = np.zeros(3)
    for choice, chance in enumerate(tf.nn.softmax(logits).numpy()):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            found = log_probability(choice, logits)
            terms = reinforce(found, [rewards[choice]], [baseline])
        total += chance * tape.gradient(terms.policy, logits).numpy()
    return total


def test_over_all_choices_the_gradient_is_that_of_the_expected_reward():
    logits, rewards = tf.constant([0.3, -0.5, 1.1], tf.float64), np.array([1.0, 3.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        expected_reward = tf.reduce_sum(tf.nn.softmax(logits) * rewards)
    exact = -tape.gradient(expected_reward, logits)

    def log_probability(choice, logits):
        return categorical_log_probability([choice], logits[None])

    for baseline in (0.0, 0.7):  # which changes the variance, not the mean
        found = _enumerated(logits, rewards, baseline, log_probability)
        np.testing.assert_allclose(found, exact, atol=1e-12)


def _gradient_of_samples(log_probability):
    """Of `E[-(l - 0.4)^2]` for the mean of a Gaussian, from 200,000 samples."""
    mean, stddev = tf.constant([[0.1]]), 0.3
    noise = tf.random.stateless_normal([200_000, 1], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(mean)
        location = mean + stddev * noise
        reward = -tf.reduce_sum((location - 0.4) ** 2, axis=-1)
        means = tf.broadcast_to(mean, location.shape)
        terms = reinforce(
            log_probability(location, means, stddev), reward, tf.fill([200_000], -0.18)
        )
        loss = terms.policy / terms.count
    return float(tape.gradient(loss, mean)[0, 0])


def _of_moving_samples(location, mean, stddev):
    """A twin that forgets that a sample is a constant."""
    return -tf.reduce_sum(((location - mean) / stddev) ** 2, axis=-1) / 2


def test_the_gradient_of_samples_is_that_of_finite_differences():
    def expected_reward(mean):
        return -((mean - 0.4) ** 2) - 0.3**2

    difference = (expected_reward(0.1 + 1e-4) - expected_reward(0.1 - 1e-4)) / 2e-4
    assert abs(_gradient_of_samples(gaussian_log_probability) + difference) < 0.01
    assert abs(_gradient_of_samples(_of_moving_samples) + difference) > 0.3


def test_the_baseline_learns_the_reward_and_nothing_else_reaches_it():
    with tf.GradientTape(persistent=True) as tape:
        baseline = tf.constant([[0.5, 0.1], [0.2, 0.0]])
        log_probability = tf.constant([[-1.0, -2.0], [-0.5, -3.0]])
        tape.watch([baseline, log_probability])
        terms = reinforce(log_probability, [1.0, 0.0], baseline)
    assert tape.gradient(terms.policy, baseline) is None
    np.testing.assert_allclose(
        tape.gradient(terms.baseline, baseline), 2 * (baseline - [[1.0], [0.0]])
    )
    np.testing.assert_allclose(
        tape.gradient(terms.policy, log_probability), baseline - [[1.0], [0.0]]
    )
    assert float(terms.count) == 4


def test_samples_that_do_not_count_may_be_anything():
    whole = reinforce([[-1.0, -2.0]], [1.0], [[0.5, 0.25]], entropy=[[0.1, 0.2]], normalize=True)
    nan = float("nan")
    padded = reinforce(
        [[-1.0, -2.0, nan]], [1.0], [[0.5, 0.25, nan]], entropy=[[0.1, 0.2, nan]],
        mask=[[True, True, False]], normalize=True,
    )  # fmt: skip
    for found, expected in zip(padded, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_normalised_advantages_do_not_depend_on_the_scale_of_rewards():
    one, other = (
        reinforce([-1.0, -2.0], [scale, 3 * scale], normalize=True).policy for scale in (1, 100)
    )
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_shapes_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match=r"The reward has a number.*Received: reward.shape=\(3,\)"):
        reinforce([-1.0, -2.0], [1.0, 2.0, 3.0])


def test_entropy_is_that_of_the_distribution():
    probabilities = np.array([[0.5, 0.25, 0.25]])
    expected = -(probabilities * np.log(probabilities)).sum(axis=-1)
    np.testing.assert_allclose(categorical_entropy(np.log(probabilities)), expected)
