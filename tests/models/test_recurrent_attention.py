"""RAM: which part learns from what, and what it takes and gives."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import RecurrentAttention
from keras_attn.training.glimpse_objective import glimpse_objective

SIZES = {"num_classes": 3, "num_glimpses": 3, "glimpse_size": 4, "units": 8, "glimpse_units": 6}
IMAGES = np.random.default_rng(0).uniform(size=(5, 12, 10)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1], np.int32)


def _model(**options):
    keras.utils.set_random_seed(2)
    return RecurrentAttention(**{**SIZES, "image_shape": (12, 10), "seed": 4, **options})


def _gradients(model, objective):
    with tf.GradientTape() as tape:
        total, _ = objective(model, (IMAGES, LABELS))
    found = tape.gradient(total, [weight.value for weight in model.trainable_weights])
    paths = [weight.path for weight in model.trainable_weights]
    return {
        path: 0.0 if g is None else float(tf.norm(g)) for path, g in zip(paths, found, strict=True)
    }


@pytest.mark.parametrize("core", ["lstm", "rnn"])
def test_the_policy_learns_from_the_reward_alone_and_the_rest_from_the_class(core):
    model = _model(core=core)
    with_policy = _gradients(model, glimpse_objective(policy_weight=1.0))
    model = _model(core=core)
    without = _gradients(model, glimpse_objective(policy_weight=0.0))
    for path, norm in with_policy.items():
        if path.startswith("mean/"):
            assert norm > 0
            assert without[path] == 0
        else:  # nothing else feels where it was looked
            np.testing.assert_allclose(norm, without[path], rtol=1e-5)
            assert norm > 0, path


def test_locations_are_middles_at_test_and_drawn_in_training():
    model = _model()
    at_rest = [model(IMAGES, training=False)["locations"].numpy() for _ in range(2)]
    np.testing.assert_array_equal(*at_rest)
    np.testing.assert_array_equal(at_rest[0][:, 0], 0.0)
    drawn = [model(IMAGES, training=True)["locations"].numpy() for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).min() > 0
    assert np.abs(drawn[0]).max() <= 1.0


def test_random_locations_are_uniform_and_learn_nothing():
    model = _model(policy="random", num_glimpses=20)
    locations = model(np.repeat(IMAGES, 20, axis=0))["locations"].numpy()
    assert abs(locations.mean()) < 0.05
    assert abs(locations.std() - 1 / np.sqrt(3)) < 0.03
    assert not any(
        norm for path, norm in _gradients(model, glimpse_objective()).items() if "mean" in path
    )


def test_one_glimpse_chooses_no_place():
    outputs = _model(num_glimpses=1)(IMAGES)
    assert outputs["log_probabilities"].shape == outputs["baselines"].shape == (5, 0)
    total, count = glimpse_objective()(_model(num_glimpses=1), (IMAGES, LABELS))
    assert np.isfinite(total)
    assert count == 5


def test_probabilities_are_a_mean_over_samples():
    model = _model()
    one, many = model.probabilities(IMAGES), model.probabilities(IMAGES, samples=7)
    for found in (one, many):
        np.testing.assert_allclose(np.sum(found, axis=-1), np.ones(5), rtol=1e-5)
    assert not np.allclose(one, many)


def test_it_comes_back_from_its_file(tmp_path):
    model = _model(scales=2)
    model.save(tmp_path / "ram.keras")
    again = keras.saving.load_model(tmp_path / "ram.keras")
    np.testing.assert_array_equal(again(IMAGES)["logits"], model(IMAGES)["logits"])
    assert again.get_config() == model.get_config()
