"""Scenes of two digits: what their captions say is what can be seen."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.digit_captions import (
    DIGITS,
    digit_scene_batches,
    digit_scenes,
    mass_on_digits,
)

LABELS = np.arange(10)
# Of a digit all pixels have its own brightness, by which it is known again.
IMAGES = np.broadcast_to((20 * LABELS + 40)[:, None, None], (10, 28, 28)).astype(np.uint8)


def test_a_caption_names_the_digits_where_they_are_in_the_order_in_which_one_reads():
    scenes = digit_scenes(IMAGES, LABELS, 300, seed=2, size=64)
    assert scenes.images.shape == (300, 64, 64, 1)
    relations = set()
    for image, caption, corners in zip(*(each.numpy() for each in scenes), strict=True):
        first, *relation, second = caption.decode().split()
        relations.add(" ".join(relation))
        for name, (row, column) in zip((first, second), corners, strict=True):
            inner = image[row + 6 : row + 22, column + 6 : column + 22]
            np.testing.assert_allclose(inner, (20 * DIGITS.index(name) + 40) / 255)
        down, right = corners[1] - corners[0]
        apart, aside = (down, right) if relation == ["above"] else (right, down)
        assert apart >= 22
        assert abs(aside) <= 11
    assert relations == {"above", "left of"}


def test_scenes_are_a_function_of_the_seed_and_every_batch_has_new_ones():
    one, again, other = (digit_scenes(IMAGES, LABELS, 8, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.images, again.images)
    assert not np.array_equal(one.images, other.images)
    batches = digit_scene_batches(IMAGES, LABELS, 4, seed=1)
    first, second = (batch.images.numpy() for batch in batches.take(2))
    assert not np.array_equal(first, second)
    later = next(iter(batches.from_step(1)))
    np.testing.assert_array_equal(later.images, second)
    assert not np.isin(first, one.images[:4]).all(), "training has other scenes than the test"


def test_the_mass_on_a_digit_is_the_share_of_the_attention_over_its_pixels():
    corners = np.array([[[0, 0], [28, 20]]])
    even = np.full((1, 1, 7, 7), 1 / 49)
    np.testing.assert_allclose(mass_on_digits(even, corners, 56), [[[0.25, 0.25]]])
    cell = np.zeros((1, 3, 7, 7))
    cell[0, 0, 0, 0] = cell[0, 1, 3, 2] = cell[0, 2, 6, 2] = 1.0
    # Row 3 is pixels 24 to 32, column 2 is 16 to 24: half of either digit's rows, of columns
    # all of the first digit's and half of the second's.
    expected = [[1.0, 0.0], [0.5, 0.25], [0.0, 0.5]]
    np.testing.assert_allclose(mass_on_digits(cell, corners, 56)[0], expected)


def test_a_canvas_on_which_two_digits_do_not_fit_is_refused():
    for make in (digit_scenes, digit_scene_batches):
        with pytest.raises(ValueError, match=r"canvas of 56 pixels\. Received: size=55"):
            make(IMAGES, LABELS, 2, 1, 55)
    assert tf.reduce_max(digit_scenes(IMAGES, LABELS, 0, 1).images).shape == ()
