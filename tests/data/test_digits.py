import numpy as np
import pytest

from keras_attn.data.digits import (
    cluttered_digit_batches,
    digit_batches,
    mnist,
    translated_digit_batches,
)
from keras_attn.errors import UserError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(1, 255, size=(10, 28, 28)).astype(np.uint8)
LABELS = np.arange(10, dtype=np.uint8)
MAKERS = [digit_batches, translated_digit_batches, cluttered_digit_batches]


def test_every_digit_comes_once_in_a_pass_and_in_another_order_in_the_next():
    batches = list(digit_batches(IMAGES, LABELS, 5, seed=3).take(4).as_numpy_iterator())
    first, second = (np.concatenate([labels for _, labels in batches[n : n + 2]]) for n in (0, 2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert list(first) != list(second)
    for images, labels in batches:
        np.testing.assert_allclose(images, IMAGES[labels] / 255.0, rtol=1e-6)


@pytest.mark.parametrize("make", MAKERS)
def test_any_step_is_found_at_once_and_is_the_same(make):
    read = list(make(IMAGES, LABELS, 4, seed=3).take(5).as_numpy_iterator())
    later = next(make(IMAGES, LABELS, 4, seed=3).from_step(4).as_numpy_iterator())
    other = next(make(IMAGES, LABELS, 4, seed=4).from_step(4).as_numpy_iterator())
    for found, expected, another in zip(later, read[4], other, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert not np.array_equal(found, another)


def test_a_translated_digit_is_whole_and_lies_anywhere():
    batches = translated_digit_batches(IMAGES, LABELS, 10, seed=1, size=40)
    corners = set()
    for images, labels in batches.take(30).as_numpy_iterator():
        for image, label in zip(images, labels, strict=True):
            rows, columns = np.nonzero(image)
            top, left = rows.min(), columns.min()
            cut = image[top : top + 28, left : left + 28]
            np.testing.assert_allclose(cut, IMAGES[label] / 255.0, rtol=1e-5)
            corners.add((top, left))
    assert {0, 12} <= {top for top, _ in corners} | {left for _, left in corners}
    assert len(corners) > 100


def test_clutter_hides_nothing_of_a_brighter_digit_and_adds_its_pieces():
    bright = np.full((4, 28, 28), 255, np.uint8)
    (images, _), *_ = cluttered_digit_batches(bright, LABELS[:4], 4, 1, 60, 3).take(1)
    counts = (images.numpy() > 0).sum(axis=(1, 2))
    assert (counts >= 28 * 28).all()
    assert counts.max() > 28 * 28
    assert counts.max() <= 28 * 28 + 3 * 64
    assert images.numpy().max() <= 1.0


def test_mistakes_are_answered_in_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"canvas of 28 pixels. Received: size=20"):
        translated_digit_batches(IMAGES, LABELS, 4, 1, size=20)
    with pytest.raises(ValueError, match="batch_size=11"):
        digit_batches(IMAGES, LABELS, 11, 1)
    with pytest.raises(ValueError, match="split='valid'"):
        mnist("valid")
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    with pytest.raises(UserError, match=rf"no mnist.npz: looked for {tmp_path}"):
        mnist("test")
    np.savez(tmp_path / "mnist.npz", x_test=IMAGES, y_test=LABELS)
    np.testing.assert_array_equal(mnist("test")[0], IMAGES)
