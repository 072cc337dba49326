"""A run with a cache gives what the whole sequence gives at once, however it is cut."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import MultiHeadAttention

LENGTH = 7
KINDS = [
    {},
    {"num_key_value_heads": 2, "rotary": True},
    {"num_key_value_heads": 1, "rotary": "interleaved", "window": 3},
]


def _layer_and_tokens(**arguments):
    layer = MultiHeadAttention(4, 4, **arguments)
    tokens = keras.random.normal((3, LENGTH, 8))
    layer(tokens, tokens)
    layer.set_weights([w + 0.1 * np.random.standard_normal(w.shape) for w in layer.get_weights()])
    return layer, tokens


def _run(layer, tokens, chunks, cache, start=0, **call):
    outputs, position = [], 0
    for size in chunks:
        chunk = tokens[:, position : position + size]
        output, cache = layer(
            chunk, chunk, cache=cache, cache_position=start + position, use_causal_mask=True, **call
        )
        outputs.append(output)
        position += size
    return tf.concat(outputs, axis=1), cache


@pytest.mark.parametrize("arguments", KINDS)
@pytest.mark.parametrize("chunks", [(1,) * 7, (3, 1, 1, 2), (7,), (0, 4, 3)])
@pytest.mark.parametrize("spare", [0, 4])
def test_every_prefix_of_a_cached_run_equals_the_full_forward(arguments, chunks, spare):
    layer, tokens = _layer_and_tokens(**arguments)
    full = layer(tokens, tokens, use_causal_mask=True)
    output, _ = _run(layer, tokens, chunks, layer.initial_cache(3, LENGTH + spare))
    np.testing.assert_allclose(output, full, atol=1e-5)


@pytest.mark.parametrize("arguments", KINDS)
def test_garbage_in_slots_not_yet_written_is_hidden(arguments):
    layer, tokens = _layer_and_tokens(**arguments)
    full = layer(tokens, tokens, use_causal_mask=True)
    garbage = tf.fill((3, 2, LENGTH + 1, layer.num_key_value_heads, 4), np.nan)
    output, _ = _run(layer, tokens, (2,) + (1,) * 5, garbage)
    np.testing.assert_allclose(output, full, atol=1e-5)


@pytest.mark.parametrize(("slots", "chunks"), [
    (3, (1,) * 7), (3, (2, 1, 1, 1, 1, 1)), (4, (2, 2, 2, 1)), (5, (3, 1, 3)), (3, (3, 1, 1, 1, 1)),
])  # fmt: skip
def test_ring_of_the_window_equals_the_full_forward_beyond_its_length(slots, chunks):
    layer, tokens = _layer_and_tokens(**KINDS[2])
    full = layer(tokens, tokens, use_causal_mask=True)
    output, cache = _run(layer, tokens, chunks, layer.initial_cache(3, slots))
    assert cache.shape[2] == slots < LENGTH
    np.testing.assert_allclose(output, full, atol=1e-5)


def test_chunk_that_would_overwrite_what_the_ring_still_needs_is_refused():
    layer, tokens = _layer_and_tokens(**KINDS[2])
    with pytest.raises(ValueError, match=r"3 positions.*Received: cache_position=\[2\]"):
        _run(layer, tokens, (2, 2), layer.initial_cache(3, 3))


@pytest.mark.parametrize("arguments", KINDS)
@pytest.mark.parametrize("slots", [LENGTH, LENGTH + 2])
def test_left_padded_run_equals_the_run_without_padding(arguments, slots):
    layer, tokens = _layer_and_tokens(**arguments)
    padding = np.array([0, 2, 6])
    exists = np.arange(LENGTH)[None] >= padding[:, None]
    output, _ = _run(layer, tokens, (4, 1, 1, 1), layer.initial_cache(3, slots), value_mask=exists)
    for example, first in enumerate(padding):
        alone = tokens[example : example + 1, first:]
        np.testing.assert_allclose(
            output[example, first:], layer(alone, alone, use_causal_mask=True)[0], atol=1e-5
        )
        assert np.all(output[example, :first] == 0)


@pytest.mark.parametrize("arguments", KINDS)
def test_right_padded_prompts_continue_at_their_own_positions(arguments):
    layer, tokens = _layer_and_tokens(**arguments)
    lengths = np.array([4, 2, 1])
    exists = np.arange(4)[None] < lengths[:, None]
    cache = layer.initial_cache(3, LENGTH)
    prompt = tokens[:, :4]
    output, cache = layer(
        prompt, prompt, query_mask=exists, value_mask=exists, use_causal_mask=True,
        cache=cache, cache_position=0,
    )  # fmt: skip
    steps = []
    for step in range(3):
        token = tokens[:, 4 + step : 5 + step]
        one, cache = layer(token, token, cache=cache, cache_position=lengths + step)
        steps.append(one)
    for example, length in enumerate(lengths):
        alone = tf.concat([tokens[example, :length], tokens[example, 4:]], axis=0)[None]
        full = layer(alone, alone, use_causal_mask=True)[0]
        np.testing.assert_allclose(output[example, :length], full[:length], atol=1e-5)
        got = tf.concat(steps, axis=1)[example]
        np.testing.assert_allclose(got, full[length:], atol=1e-5)


def test_attention_mask_spans_the_positions_of_the_cache():
    layer, tokens = _layer_and_tokens(**KINDS[1])
    mask = np.random.default_rng(4).random((3, 4, LENGTH, LENGTH)) < 0.7
    full = layer(tokens, tokens, attention_mask=mask, use_causal_mask=True)
    cache, outputs = layer.initial_cache(3, LENGTH + 1), []
    for t in range(LENGTH):
        token = tokens[:, t : t + 1]
        output, cache = layer(
            token, token, attention_mask=mask[:, :, t : t + 1], cache=cache, cache_position=t
        )
        outputs.append(output)
    np.testing.assert_allclose(tf.concat(outputs, axis=1), full, atol=1e-5)


def test_scores_with_a_cache_are_those_of_the_slots():
    layer, tokens = _layer_and_tokens()
    _, full = layer(tokens, tokens, use_causal_mask=True, return_attention_scores=True)
    cache = layer.initial_cache(3, LENGTH + 2)
    _, cache = _run(layer, tokens, (5,), cache)
    token = tokens[:, 5:6]
    _, scores, _ = layer(token, token, cache=cache, cache_position=5, return_attention_scores=True)
    np.testing.assert_allclose(scores[..., :6], full[:, :, 5:6, :6], atol=1e-5)
    assert np.all(scores[..., 6:] == 0)


@pytest.mark.parametrize("arguments", KINDS)
@pytest.mark.parametrize("compile_it", [False, True], ids=["graph", "xla"])
def test_loop_in_a_graph_equals_the_full_forward(arguments, compile_it):
    layer, tokens = _layer_and_tokens(**arguments)
    full = layer(tokens, tokens, use_causal_mask=True)

    @tf.function(jit_compile=compile_it)
    def decode(tokens):
        def step(position, cache, outputs):
            token = tf.gather(tokens, position[None], axis=1)
            output, cache = layer(token, token, cache=cache, cache_position=position)
            return position + 1, cache, outputs.write(position, output[:, 0])

        outputs = tf.TensorArray("float32", LENGTH, element_shape=(3, 8))
        slots = layer.window or LENGTH
        state = tf.constant(0), layer.initial_cache(3, slots), outputs
        state = tf.while_loop(lambda position, *_: position < LENGTH, step, state)
        return tf.transpose(state[2].stack(), (1, 0, 2))

    np.testing.assert_allclose(decode(tokens), full, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_position_for_all_and_one_each_give_the_same_values_and_gradients(dtype):
    layer, tokens = _layer_and_tokens(**KINDS[1])
    layer = MultiHeadAttention.from_config({**layer.get_config(), "dtype": dtype, "seed": 1})
    tokens = tf.cast(tokens[:, :2], dtype)
    before = tf.cast(keras.random.normal((3, 2, 6, 2, 4)), dtype)
    layer(tokens, tokens)
    results = []
    for position in (3, [3, 3, 3]):
        with tf.GradientTape() as tape:
            tape.watch([tokens, before])
            output, after = layer(tokens, tokens, cache=before, cache_position=np.array(position))
            loss = tf.reduce_sum(output**2) + tf.reduce_sum(after**3)
        results.append([output, after, *tape.gradient(loss, [tokens, before])])
    for shared, own in zip(*results, strict=True):
        shared, own = tf.cast(shared, "float32"), tf.cast(own, "float32")
        np.testing.assert_allclose(shared, own, atol=1e-5 if dtype == "float32" else 0.1)
    kept = [0, 1, 2, 5]
    changed = tf.cast(after != before, "int32").numpy()
    assert changed[:, :, kept].sum() == 0
    assert changed[:, :, 3:5].mean() > 0.9


def test_memory_projected_once_equals_cross_attention():
    layer = MultiHeadAttention(4, 3, num_key_value_heads=2)
    query, memory = keras.random.normal((3, 2, 8)), keras.random.normal((3, 5, 6))
    exists = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
    expected = layer(query, memory, value_mask=exists, return_attention_scores=True)
    got = layer.attend(query, layer.project_memory(memory, exists), exists)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_projected_memory_refuses_positions_it_cannot_honour():
    layer, tokens = _layer_and_tokens(rotary=True)
    with pytest.raises(ValueError, match="Received: rotary=<RotaryEmbedding"):
        layer.project_memory(tokens)
