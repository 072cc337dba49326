import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops.dropout import dropout

SEED = tf.constant([3, 5], tf.int32)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.999])
def test_the_share_that_is_dropped_and_the_expectation_are_right(rate):
    y = dropout(tf.ones([1000, 999]), rate, SEED).numpy()
    error = 5 * np.sqrt(rate * (1 - rate) / y.size)
    assert abs((y == 0).mean() - rate) < error + 2**-16
    assert abs(y.mean() - 1) < error / (1 - rate)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=0.02 if rate > 0.9 else 1e-4)


def test_neighbours_that_share_a_random_number_are_independent():
    kept = dropout(tf.ones([500_000]), 0.3, SEED).numpy().reshape(-1, 2) != 0
    assert abs(np.corrcoef(kept.T)[0, 1]) < 0.01
    assert abs(kept[:, 0].mean() - kept[:, 1].mean()) < 0.005


def test_a_seed_drops_the_same_and_another_seed_drops_others():
    x = tf.ones([5, 7])
    np.testing.assert_array_equal(dropout(x, 0.5, SEED), dropout(x, 0.5, SEED))
    assert np.abs(dropout(x, 0.5, SEED) - dropout(x, 0.5, SEED + 1)).max() > 0


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_graphs_drop_what_eager_calls_drop(jit_compile):
    x = tf.random.normal([3, 5])
    run = tf.function(lambda x: dropout(x, 0.4, SEED), jit_compile=jit_compile)
    np.testing.assert_allclose(run(x), dropout(x, 0.4, SEED), rtol=1e-6)


def test_the_gradient_is_that_of_the_same_draw():
    x = tf.random.normal([3, 5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, 0.4, SEED)
    np.testing.assert_allclose(tape.gradient(y, x), dropout(tf.ones([3, 5]), 0.4, SEED), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (1,), (2, 0, 4), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_shape_and_dtype_are_kept(shape, dtype):
    x = tf.ones(shape, dtype)
    y = dropout(x, 0.5, SEED)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
