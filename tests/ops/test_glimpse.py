import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import glimpses

IMAGE = np.arange(1.0, 31.0, dtype=np.float32).reshape(1, 5, 6, 1)  # 5 rows, 6 columns


def _patch(location, size, scales=1, image=IMAGE):
    return glimpses(image, [location], size, scales).numpy()[0, ..., 0]


def test_an_odd_patch_stands_on_the_pixel_in_the_middle():
    x = 2 * 2.5 / 6 - 1  # the middle of column 2
    np.testing.assert_allclose(
        _patch((x, 0.0), 3)[0], [[8, 9, 10], [14, 15, 16], [20, 21, 22]], rtol=1e-6
    )


def test_an_even_patch_lies_between_pixels():
    y = 2 * 2 / 5 - 1  # the edge between rows 1 and 2
    np.testing.assert_allclose(_patch((0.0, y), 2)[0], [[9, 10], [15, 16]], rtol=1e-6)
    # Half a pixel lower it is the mean of two rows.
    np.testing.assert_allclose(_patch((0.0, 0.0), 2)[0], [[12, 13], [18, 19]], rtol=1e-6)


def test_a_corner_is_the_outer_edge_of_a_pixel_and_zeros_lie_beyond():
    np.testing.assert_allclose(_patch((-1.0, -1.0), 2)[0], [[0, 0], [0, 1]], atol=1e-5)
    np.testing.assert_allclose(_patch((1.0, 1.0), 2)[0], [[30, 0], [0, 0]], atol=1e-5)
    # An odd patch there has its middle on the corner: a quarter of the pixel, the rest is beyond.
    np.testing.assert_allclose(_patch((-1.0, -1.0), 1)[0], [[0.25]], atol=1e-5)


def test_an_edge_shows_the_column_beside_it():
    expected = [[(7 + 13) / 2 * 0 + 12, 0], [18, 0]]
    y = 2 * 2 / 5 - 1
    np.testing.assert_allclose(_patch((1.0, y), 2)[0], expected, atol=1e-5)


def test_the_second_scale_is_twice_as_wide_and_averaged():
    coarse = _patch((0.0, 2 * 2 / 5 - 1), 2, scales=2)[1]
    pixels = IMAGE[0, 0:4, 1:5, 0]
    expected = pixels.reshape(2, 2, 2, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(coarse, expected, rtol=1e-6)


def _plain(image, location, size, scale):
    """Pixel by pixel, as the docstring says it."""
    height, width, channels = image.shape
    factor = 2**scale
    patch = np.zeros((size, size, channels))
    middle = [(location[1] + 1) * height / 2, (location[0] + 1) * width / 2]
    count = size * factor
    for row in range(count):
        for column in range(count):
            y = middle[0] + row - (count - 1) / 2 - 0.5
            x = middle[1] + column - (count - 1) / 2 - 0.5
            for i in (int(np.floor(y)), int(np.floor(y)) + 1):
                for j in (int(np.floor(x)), int(np.floor(x)) + 1):
                    if 0 <= i < height and 0 <= j < width:
                        weight = (1 - abs(y - i)) * (1 - abs(x - j)) / factor**2
                        patch[row // factor, column // factor] += weight * image[i, j]
    return patch


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_glimpses_are_those_of_a_plain_loop(mode):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(4, 7, 10, 2)).astype(np.float32)
    locations = rng.uniform(-1.2, 1.2, size=(4, 2)).astype(np.float32)
    function = {
        "eager": glimpses,
        "graph": tf.function(glimpses),
        "xla": tf.function(glimpses, jit_compile=True),
    }[mode]
    found = function(tf.constant(images), tf.constant(locations), size=3, scales=3).numpy()
    for n in range(4):
        for scale in range(3):
            expected = _plain(images[n], locations[n], 3, scale)
            np.testing.assert_allclose(found[n, scale], expected, atol=2e-5)


def test_the_gradient_of_a_location_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    images = tf.constant(rng.normal(size=(1, 6, 6, 1)), tf.float32)
    weights = tf.constant(rng.normal(size=(1, 2, 3, 3, 1)), tf.float32)
    location = tf.constant([[0.13, -0.21]])

    def value(location):
        return tf.reduce_sum(weights * glimpses(images, location, 3, 2))

    with tf.GradientTape() as tape:
        tape.watch(location)
        loss = value(location)
    gradient = tape.gradient(loss, location).numpy()[0]
    for axis in range(2):
        step = np.zeros((1, 2), np.float32)
        step[0, axis] = 1e-3
        difference = (value(location + step) - value(location - step)) / 2e-3
        np.testing.assert_allclose(gradient[axis], difference, rtol=2e-2, atol=2e-3)


def test_no_images_have_no_glimpses():
    assert glimpses(tf.zeros([0, 5, 6, 1]), tf.zeros([0, 2]), 3, 2).shape == (0, 2, 3, 3, 1)
