import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.sequence_pairs import batches_of_pairs
from keras_attn.text import END, PADDING, START

LENGTHS = np.random.default_rng(0).integers(0, 30, size=103)
SOURCES = tf.ragged.constant([[row + 10] * n for row, n in enumerate(LENGTHS)], dtype=tf.int32)
TARGETS = tf.ragged.constant(
    [[row + 10] * (n % 5) for row, n in enumerate(LENGTHS)], dtype=tf.int32
)


def _batches(seed=1, count=20, skip=0):
    batches = batches_of_pairs(SOURCES, TARGETS, batch_size=10, seed=seed)
    return list(batches.skip(skip).take(count).as_numpy_iterator())


def test_sources_and_targets_stay_together_with_their_ends():
    for inputs, labels, mask in _batches():
        for source, length, target, label, real in zip(
            inputs["source"], inputs["source_lengths"], inputs["target"], labels, mask, strict=True
        ):
            assert source[length - 1] == END
            assert (source[length:] == PADDING).all()
            tokens = label[real]
            assert tokens[-1] == END
            assert set(tokens[:-1]) <= set(source[: length - 1])
            assert len(tokens) - 1 == (length - 1) % 5
            assert target[0] == START
            np.testing.assert_array_equal(target[1 : len(tokens)], tokens[:-1])


def test_a_pass_has_every_pair_at_most_once_and_leaves_out_less_than_a_batch():
    seen = np.concatenate([inputs["source"][:, 0] for inputs, _, _ in _batches(count=10)])
    _, counts = np.unique(seen[seen != END], return_counts=True)
    assert (counts == 1).all()
    assert len(seen) == 100


def test_batches_need_little_padding():
    real = sum(inputs["source_lengths"].sum() for inputs, _, _ in _batches())
    held = sum(inputs["source"].size for inputs, _, _ in _batches())
    assert real / held > 0.9


def test_the_order_is_a_function_of_the_seed_and_the_step():
    first, again, other = _batches(1), _batches(1), _batches(2)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a[1], b[1])
    assert [labels.tolist() for _, labels, _ in first] != [
        labels.tolist() for _, labels, _ in other
    ]
    for a, b in zip(first[7:], _batches(1, 13, skip=7), strict=True):
        np.testing.assert_array_equal(a[0]["source"], b[0]["source"])


def test_every_pass_has_another_order():
    batches = _batches(count=20)
    first = [inputs["source"][:, 0].tolist() for inputs, _, _ in batches[:10]]
    second = [inputs["source"][:, 0].tolist() for inputs, _, _ in batches[10:]]
    assert first != second


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="Received: batch_size=200"):
        batches_of_pairs(SOURCES, TARGETS, batch_size=200, seed=1)
