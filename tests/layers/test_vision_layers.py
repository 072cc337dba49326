"""Glimpses and filterbanks as layers."""

import numpy as np
import pytest
import tensorflow as tf
from layer_check import check_layer

from keras_attn.layers import FilterbankRead, FilterbankWrite, GlimpseSensor, LocationSampler

RNG = np.random.default_rng(0)


def test_glimpse_sensor(tmp_path):
    check_layer(
        lambda **options: GlimpseSensor(3, scales=2, **options),
        {
            "images": RNG.normal(size=(3, 7, 8, 2)).astype(np.float32),
            "locations": RNG.uniform(-1, 1, size=(3, 2)).astype(np.float32),
        },
        tmp_path,
        dynamic_axes=(0,),
    )


def test_filterbank_read(tmp_path):
    check_layer(
        lambda **options: FilterbankRead(4, **options),
        {
            "images": RNG.normal(size=(3, 7, 8)).astype(np.float32),
            "parameters": RNG.normal(size=(3, 5)).astype(np.float32) * 0.3,
        },
        tmp_path,
        dynamic_axes=(0,),
    )


def test_filterbank_write(tmp_path):
    check_layer(
        lambda **options: FilterbankWrite(7, 8, **options),
        {
            "patches": RNG.normal(size=(3, 4, 4)).astype(np.float32),
            "parameters": RNG.normal(size=(3, 5)).astype(np.float32) * 0.3,
        },
        tmp_path,
        dynamic_axes=(0,),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "mixed_bfloat16"])
def test_locations_are_drawn_in_training_and_exact_whatever_the_policy(dtype):
    layer = LocationSampler(0.2, seed=1, dtype=dtype)
    means = RNG.uniform(-0.5, 0.5, size=(500, 2)).astype(np.float32)
    location, log_probability = layer(means)
    assert {location.dtype, log_probability.dtype} == {tf.float32}
    np.testing.assert_allclose(location, means, atol=0 if dtype == "float32" else 4e-3)
    drawn, of_drawn = layer(means, training=True)
    assert abs(np.std(drawn - location) - 0.2) < 0.02
    again = LocationSampler.from_config(layer.get_config())
    again(means)
    np.testing.assert_array_equal(again(means, training=True)[0], drawn)
    expected = -np.sum((drawn - location) ** 2, axis=-1) / (2 * 0.2**2) - np.log(0.08 * np.pi)
    inside = np.abs(drawn).max(axis=-1) < 1
    np.testing.assert_allclose(of_drawn[inside], expected[inside], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("x", "y", "log_stride"), [(0.0, 0.0, -0.6), (0.1, -0.2, -0.9)])
def test_what_is_read_and_written_is_the_image_again(x, y, log_stride):
    """A smooth blob inside of the grid, at a scale of several windows, comes back to 5 %."""
    rows, columns = np.mgrid[0:40, 0:48]
    middle = ((x + 1) * 49 / 2 - 1, (y + 1) * 41 / 2 - 1)
    distance = (columns - middle[0]) ** 2 + (rows - middle[1]) ** 2
    image = np.exp(-distance / (2 * 9.0**2)).astype(np.float32)[None]
    stride = 47 / 15 * np.exp(log_stride)
    parameters = np.array([[x, y, np.log((0.6 * stride) ** 2), log_stride, 0.7]], np.float32)
    patch = FilterbankRead(16)(image, parameters)
    again = FilterbankWrite(40, 48)(patch, parameters)
    inside = np.sqrt(distance) < 4 * stride
    np.testing.assert_allclose(again[0][inside], image[0][inside], atol=0.05)


@pytest.mark.parametrize(
    ("layer", "shapes", "words"),
    [
        (GlimpseSensor(3), [(2, 7), (2, 2)], "Images have the shape"),
        (GlimpseSensor(3), [(2, 7, 7, 1), (2, 3)], "pairs"),
        (FilterbankRead(3), [(2, 7, 7), (2, 4)], "five numbers"),
        (FilterbankWrite(7, 7), [(2, 3, 4), (2, 5)], "as many rows as columns"),
    ],
)
def test_wrong_shapes_are_refused_in_a_sentence(layer, shapes, words):
    with pytest.raises(ValueError, match=f"{words}.*Received: "):
        layer(*(np.zeros(shape, np.float32) for shape in shapes))
