"""Transformer blocks: the order of the residuals, caches, weights, dropout, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn import layers

TOKENS = np.random.default_rng(1).standard_normal((2, 5, 8)).astype("float32")
MEMORY = np.random.default_rng(2).standard_normal((2, 4, 6)).astype("float32")
KINDS = [
    {},
    {"normalize_first": True, "normalization": "rms", "activation": "swiglu"},
    {"normalize_first": True, "activation": "gelu", "num_key_value_heads": 2, "rotary": True,
     "window": 3},
]  # fmt: skip


def _moved(layer, *inputs):
    layer(*inputs)
    layer.set_weights([w + 0.2 * np.random.standard_normal(w.shape) for w in layer.get_weights()])
    return layer


def _norm(kind, weights, x):
    if kind == "rms":
        return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-6) * weights[0]
    centred = x - np.mean(x, -1, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, -1, keepdims=True) + 1e-6)
    return centred / deviation * weights[0] + weights[1]


def _branch(block, name, x, sublayer):
    kind = block.get_config()["normalization"]
    weights = [w.numpy() for w in block.weights if f"/{name}_branch/" in w.path]
    if block.get_config()["normalize_first"]:
        return x + np.array(sublayer(_norm(kind, weights, x)))
    return _norm(kind, weights, x + np.array(sublayer(x)))


def _feed_forward(block, x):
    weights = [w.numpy() for w in block.feed_forward.weights]
    hidden = x @ weights[0] + weights[1]
    activation = block.get_config()["activation"]
    if activation == "swiglu":
        hidden = hidden / (1 + np.exp(-hidden)) * (x @ weights[2] + weights[3])
    elif activation == "gelu":
        erf = tf.math.erf(hidden / np.sqrt(2)).numpy()
        hidden = hidden * 0.5 * (1 + erf)
    else:
        hidden = np.maximum(hidden, 0)
    return hidden @ weights[-2] + weights[-1]


@pytest.mark.parametrize("arguments", KINDS)
def test_encoder_block_follows_the_published_equations(arguments):
    block = _moved(layers.TransformerEncoderBlock(4, 12, **arguments), TOKENS)
    x = _branch(block, "self_attention", TOKENS, lambda x: block.attention(x, x))
    x = _branch(block, "feed_forward", x, lambda x: _feed_forward(block, x))
    np.testing.assert_allclose(block(TOKENS), x, atol=2e-5)


@pytest.mark.parametrize("arguments", KINDS)
def test_decoder_block_follows_the_published_equations(arguments):
    block = _moved(layers.TransformerDecoderBlock(4, 12, **arguments), TOKENS, MEMORY)
    x = _branch(
        block, "self_attention", TOKENS,
        lambda x: block.self_attention(x, x, use_causal_mask=True),
    )  # fmt: skip
    x = _branch(block, "memory_attention", x, lambda x: block.memory_attention(x, MEMORY))
    x = _branch(block, "feed_forward", x, lambda x: _feed_forward(block, x))
    np.testing.assert_allclose(block(TOKENS, MEMORY), x, atol=2e-5)


@pytest.mark.parametrize("arguments", KINDS)
def test_cached_steps_of_an_encoder_block_equal_the_causal_whole(arguments):
    block = _moved(layers.TransformerEncoderBlock(4, 12, **arguments), TOKENS)
    full, weights = block(TOKENS, use_causal_mask=True, return_attention_scores=True)
    assert weights.shape == (2, 4, 5, 5)
    cache, outputs = block.initial_cache(2, 5), []
    for t in range(5):
        output, cache = block(TOKENS[:, t : t + 1], cache=cache, cache_position=t)
        outputs.append(output)
    np.testing.assert_allclose(ops.concatenate(outputs, 1), full, atol=1e-5)


@pytest.mark.parametrize("arguments", KINDS)
def test_cached_steps_of_a_decoder_block_equal_the_whole(arguments):
    block = _moved(layers.TransformerDecoderBlock(4, 12, **arguments), TOKENS, MEMORY)
    tokens_exist = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    memory_exists = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    full, weights, memory_weights = block(
        TOKENS, MEMORY, mask=tokens_exist, memory_mask=memory_exists, return_attention_scores=True
    )
    assert weights.shape == (2, 4, 5, 5)
    assert memory_weights.shape == (2, 4, 5, 4)
    memory_cache = block.project_memory(MEMORY, memory_exists)
    cache, outputs = block.initial_cache(2, 6), []
    for first, end in ((0, 3), (3, 4), (4, 5)):
        output, seen, cross, cache = block(
            TOKENS[:, first:end], memory_cache=memory_cache, mask=tokens_exist,
            memory_mask=memory_exists, return_attention_scores=True, cache=cache,
            cache_position=first,
        )  # fmt: skip
        assert seen.shape == (2, 4, end - first, 6)
        np.testing.assert_allclose(
            cross.numpy()[:, :, tokens_exist[0, first:end]],
            memory_weights[:, :, first:end].numpy()[:, :, tokens_exist[0, first:end]],
            atol=1e-5,
        )
        outputs.append(output)
    outputs = ops.concatenate(outputs, 1)
    np.testing.assert_allclose(outputs.numpy()[tokens_exist], full.numpy()[tokens_exist], atol=1e-5)


def test_automatic_masks_reach_a_stack_of_blocks_and_leave_it():
    tokens, source = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(9, 8, mask_zero=True)
    x, memory = embedding(tokens), embedding(source)
    for _ in range(2):
        memory = layers.TransformerEncoderBlock(2, 8)(memory)
        x = layers.TransformerDecoderBlock(2, 8)(x, memory)
    model = keras.Model([tokens, source], x)
    long = np.array([[1, 2, 3, 0, 0]]), np.array([[4, 5, 0, 0, 0, 0]])
    short = long[0][:, :3], long[1][:, :2]
    for run in (model, tf.function(model)):
        got = run([tf.constant(ids) for ids in long])
        expected = run([tf.constant(ids) for ids in short])
        np.testing.assert_allclose(got[:, :3], expected, atol=1e-5)
    assert getattr(model([tf.constant(ids) for ids in long]), "_keras_mask", None) is not None


def test_nan_in_padding_reaches_no_token_and_no_gradient():
    exists = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    poisoned = np.where(exists[..., None], TOKENS, np.nan)
    block = _moved(layers.TransformerEncoderBlock(2, 8), TOKENS)
    results = []
    for inputs in (TOKENS, poisoned):
        with tf.GradientTape() as tape:
            output = block(inputs, mask=exists)
            loss = tf.reduce_sum(tf.boolean_mask(output, exists) ** 2)
        results.append([tf.boolean_mask(output, exists), *tape.gradient(loss, block.variables)])
    for clean, got in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, got)


def test_dropout_is_random_in_training_alone_and_differs_between_branches():
    block = layers.TransformerEncoderBlock(2, 8, dropout=0.5, attention_dropout=0.5, seed=4)
    still = block(TOKENS)
    np.testing.assert_array_equal(block(TOKENS), still)
    assert np.max(np.abs(block(TOKENS, training=True) - still)) > 0.1
    ones = np.ones((2, 5, 8), "float32")
    drops = [
        branch._dropout(ones, training=True).numpy()
        for branch in (block.attention_branch, block.feed_forward_branch)
    ]
    assert not np.array_equal(*drops)


@pytest.mark.parametrize("block", [layers.TransformerEncoderBlock, layers.TransformerDecoderBlock])
@pytest.mark.parametrize(("arguments", "message"), [
    ({"normalization": "batch"}, "one of.*Received: normalization='batch'"),
    ({"activation": "tangent"}, "one of.*Received: activation='tangent'"),
    ({"window": -1}, "Received: window=-1"),
    ({"intermediate_dim": 0}, "Received: intermediate_dim=0"),
    ({"num_key_value_heads": 3}, "multiple.*Received: num_heads=4, num_key_value_heads=3"),
    ({"rotary": True, "key_dim": 3}, "even.*Received: key_dim=3"),
    ({"rotary": "spiral"}, "Received: convention='spiral'"),
    ({"num_heads": 0}, "Received: num_heads=0"),
])  # fmt: skip
def test_bad_arguments_are_refused_at_once(block, arguments, message):
    with pytest.raises(ValueError, match=message):
        block(**({"num_heads": 4, "intermediate_dim": 8} | arguments))


def test_bad_calls_are_refused_with_what_was_received():
    with pytest.raises(ValueError, match="Received: features=8, num_heads=3"):
        layers.TransformerEncoderBlock(3, 8)(TOKENS)
    block = layers.TransformerDecoderBlock(4, 8)
    with pytest.raises(ValueError, match=r"Received: memory\.shape=None, memory_cache\.shape=None"):
        _moved(block, TOKENS, MEMORY)(TOKENS)
    with pytest.raises(ValueError, match=r"Received: value_mask.shape=\(2, 3\)"):
        block(TOKENS, MEMORY, mask=np.ones((2, 3), bool))
    with pytest.raises(ValueError, match=r"Received: .*shape=\(2, 5\)"):
        block(TOKENS, MEMORY, memory_mask=np.ones((2, 5), bool))
    with pytest.raises(ValueError, match="cache_position"):
        block(TOKENS, MEMORY, cache=block.initial_cache(2, 5))
