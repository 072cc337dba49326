"""The cache of keys and values: which position lies in which slot, and what a write changes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import cache as kv_cache

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_slots_hold_the_latest_position_that_belongs_in_them(size):
    held = np.full(size, -1)
    for position in range(10):
        held[position % size] = position
        got = np.array(kv_cache.slot_positions(size, tf.constant([position])))[0]
        np.testing.assert_array_equal(np.maximum(got, -1), held)


@pytest.mark.parametrize("position", [[4], [0, 3]])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_write_changes_the_slots_of_the_new_positions_alone(position, wrap, mode):
    cache = RNG.standard_normal((2, 2, 6, 3, 4)).astype("float32")
    key, value = RNG.standard_normal((2, 2, 2, 3, 4)).astype("float32")
    start = [p + 7 for p in position] if wrap else position
    expected = cache.copy()
    for example in range(2):
        for token in range(2):
            slot = (start[example % len(start)] + token) % 6
            expected[example, :, slot] = np.stack([key[example, token], value[example, token]])
    run = kv_cache.write
    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla")
    given = tf.constant(cache)
    got = run(given, tf.constant(key), tf.constant(value), tf.constant(start), wrap)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(given, cache, "the old cache is kept")


def test_graph_reuses_the_buffer_of_a_cache_in_a_loop():
    """The loop must not grow slower with the cache: its every step would copy it all."""
    key = tf.zeros((1, 1, 1, 4))

    def graph(length):
        @tf.function
        def run(steps):
            cache = tf.zeros((1, 2, length, 1, 4))
            _, cache = tf.while_loop(
                lambda step, _: step < steps,
                lambda step, cache: (step + 1, kv_cache.write(cache, key, key, step[None], False)),
                (tf.constant(0), cache),
            )
            return cache[:, :, 0]

        return run.get_concrete_function(tf.constant(1))

    names = {
        node.op
        for function in graph(8).graph.as_graph_def().library.function
        for node in function.node_def
    }
    assert "TensorStridedSliceUpdate" in names
    assert "TensorScatterUpdate" not in names


@pytest.mark.parametrize("positions", [[4], [1, 4]], ids=["shared", "each"])
@pytest.mark.parametrize("static", [1, 2, None], ids=["one", "two", "unknown"])
def test_a_token_beyond_the_cache_stops_a_graph_and_does_not_vanish(static, positions):
    @tf.function(
        input_signature=[
            tf.TensorSpec([2, static, 1, 3]),
            tf.TensorSpec([len(positions)], tf.int32),
        ]
    )
    def written(new, position):
        return kv_cache.write(tf.zeros([2, 2, 4, 1, 3]), new, new, position, wrap=False)

    new = tf.ones([2, static or 1, 1, 3])
    last = tf.minimum(positions, 4 - new.shape[1])
    assert tf.reduce_all(written(new, last)[-1, :, 3] == 1)
    with pytest.raises(tf.errors.InvalidArgumentError):
        written(new, tf.constant(positions))
