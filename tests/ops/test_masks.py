"""Masks against their definitions, entry by entry."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import masks

SIZES = [(1, 1), (3, 3), (2, 5), (5, 2), (1, 4)]
RNG = np.random.default_rng(8)


def _by_definition(queries, keys, causal, window):
    seen = np.ones((queries, keys), bool)
    for t, s in itertools.product(range(queries), range(keys)):
        distance = t + keys - queries - s
        seen[t, s] = not (causal and distance < 0) and (window is None or abs(distance) < window)
    return seen


@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 2, 9])
@pytest.mark.parametrize("shape", [None, "keys", "queries", "heads"])
def test_visible_keys_and_seeing_queries_follow_the_definition(
    queries, keys, causal, window, shape
):
    shape = {
        None: None, "keys": (2, keys), "queries": (2, queries, keys), "heads": (1, 3, 1, keys),
    }[shape]  # fmt: skip
    mask = None if shape is None else RNG.random(shape) < 0.4
    full = np.broadcast_to(_by_definition(queries, keys, causal, window), (2, 3, queries, keys))
    if mask is not None:
        middle = {2: mask[:, None, None], 3: mask[:, None], 4: mask}.get(mask.ndim)
        full = full & middle
    scores = (2, 3, queries, keys)
    visible = masks.visible(scores, mask, causal, window)
    assert (visible is None) == (mask is None and not causal and window is None)
    if visible is not None:
        np.testing.assert_array_equal(np.broadcast_to(visible, scores), full)
    seeing = masks.seeing_queries(scores, mask, causal, window)
    seeing = np.ones((2, queries), bool) if seeing is None else np.array(seeing)
    np.testing.assert_array_equal(np.broadcast_to(seeing, (2, queries)), full.any((1, 3)))
    seen = masks.visible_keys(scores, mask, causal, window)
    assert (seen is None) == (mask is None)
    if seen is not None:
        np.testing.assert_array_equal(np.broadcast_to(seen, (2, keys)), full.any((1, 2)))


def test_seeing_queries_of_unknown_lengths_need_no_mask_of_both():
    """A causal graph of unknown length would hold T x S booleans for nothing."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)] * 2)
    def seeing(queries, keys):
        return masks.seeing_queries((1, 1, queries, keys), None, causal=True)

    np.testing.assert_array_equal(seeing(4, 2), [[False, False, True, True]])
    shapes = [o.shape for op in seeing.get_concrete_function().graph.get_operations()
              for o in op.outputs]  # fmt: skip
    assert max(len(shape) for shape in shapes) <= 2


def test_positions_give_the_mask_of_the_same_distances():
    query_positions, key_positions = np.array([[3, 4], [7, 8]]), np.arange(-1, 9)[None]
    seen = np.array(masks.position_mask(query_positions, key_positions, causal=True, window=3))
    for b, t, s in itertools.product(range(2), range(2), range(10)):
        distance = query_positions[b, t] - key_positions[0, s]
        assert seen[b, t, s] == (key_positions[0, s] >= 0 and 0 <= distance < 3)


def test_lengths_give_the_mask_of_the_first_positions():
    np.testing.assert_array_equal(
        masks.length_mask(np.array([0, 2, 3]), 3), [[0, 0, 0], [1, 1, 0], [1, 1, 1]]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_softmax_of_any_dtype_hides_what_is_masked_and_sums_to_one(dtype):
    scores = tf.constant([[1.0, 2.0, 60000.0], [-60000.0, 1.0, 2.0], [1.0, 2.0, 3.0]], dtype)
    mask = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = masks.masked_softmax(scores, mask)
        loss = tf.reduce_sum(weights**2)
    expected = 1 / (1 + np.exp(1.0))
    np.testing.assert_allclose(weights[0], [expected, 1 - expected, 0], atol=1e-6)
    np.testing.assert_array_equal(weights[1:], [[1, 0, 0], [0, 0, 0]])
    assert np.all(np.isfinite(tf.cast(tape.gradient(loss, scores), "float64")))


@pytest.mark.parametrize("inputs_batch", [1, 2])
@pytest.mark.parametrize("seen_batch", [1, 2])
def test_cleared_rows_are_zero_and_pass_no_gradient(inputs_batch, seen_batch):
    inputs = tf.constant(RNG.standard_normal((inputs_batch, 3, 2, 4)).astype("float32"))
    seen = np.array([[True, False, True], [False, False, True]])[:seen_batch]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        cleared = masks.clear_hidden(inputs, tf.constant(seen))
        loss = tf.reduce_sum(cleared)
    kept = np.broadcast_to(
        seen[:, :, None, None], np.broadcast_shapes((seen_batch, 3, 2, 4), inputs.shape)
    )
    np.testing.assert_array_equal(cleared, np.where(kept, inputs, 0))
    gradient = tape.gradient(loss, inputs).numpy()
    counted = kept.astype(int)
    counted = counted.sum(0, keepdims=True) if inputs_batch == 1 else counted
    np.testing.assert_array_equal(gradient, counted)


def test_padding_is_what_stands_behind_the_last_other_id():
    ids = np.array([[0, 3, 0, 2, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    expected = np.arange(5) < np.array([4, 0, 5])[:, None]
    np.testing.assert_array_equal(masks.token_mask(ids, 0), expected)
    assert masks.token_mask(np.zeros((2, 0), "int32"), 0).shape == (2, 0)
