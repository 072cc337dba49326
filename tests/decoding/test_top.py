import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding.top import at_most, top_k


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("size", "count", "values"),
    [(1000, 5, 3), (997, 3, 10**6), (640, 10, 4), (5000, 1, 2), (7, 7, 3)],
)
def test_blocks_keep_values_columns_and_ties(size, count, values, compiled):
    rng = np.random.default_rng(size)
    logits = rng.integers(0, values, size=(12, size)).astype("float32")
    logits[1:6][rng.random((5, size)) < 0.999] = -np.inf
    logits[0] = -np.inf
    expected = tf.math.top_k(logits, count)
    found = tf.function(top_k, jit_compile=compiled)(tf.constant(logits), count)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_at_most_the_vocabulary():
    assert at_most(5, tf.zeros([2, 3])) == 3
    assert at_most(5, tf.zeros([2, 30])) == 5
