"""Layers that attend blockwise: as dense, in training, in `fit`, exported."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import MultiHeadAttention, TransformerDecoderBlock
from keras_attn.ops import attention
from keras_attn.serving import export


def _pair(**options):
    """The same layer blockwise and dense, and tokens of 9 positions, some of them padding."""
    tokens = keras.random.normal((2, 9, 6), seed=1)
    layers = [MultiHeadAttention(4, 4, method=m, **options) for m in ("blockwise", "dense")]
    for layer in layers:
        layer(tokens, tokens)
    layers[0].set_weights([w + 0.1 for w in layers[0].get_weights()])
    layers[1].set_weights(layers[0].get_weights())
    mask = np.arange(9)[None] < np.array([[9], [5]])
    return layers, tokens, mask


@pytest.mark.parametrize("options", [
    {}, {"window": 3}, {"num_key_value_heads": 2, "rotary": True}, {"value_dim": 3},
], ids=["plain", "window", "grouped rotary", "value_dim"])  # fmt: skip
@pytest.mark.parametrize("causal", [False, True])
def test_blockwise_layer_equals_the_dense_layer_in_outputs_and_gradients(options, causal):
    layers, tokens, mask = _pair(**options)
    results = []
    for layer in layers:
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            output = layer(tokens, tokens, query_mask=mask, value_mask=mask, use_causal_mask=causal)
            loss = tf.reduce_sum(tf.sin(output))
        results.append([output, *tape.gradient(loss, [tokens, *layer.trainable_weights])])
    for blockwise, dense in zip(*results, strict=True):
        np.testing.assert_allclose(blockwise, dense, atol=2e-5)


def test_one_token_after_the_other_equals_all_at_once():
    (layer, _), tokens, _ = _pair()
    cache = layer.initial_cache(2, 9)
    steps = []
    for position in range(9):
        token = tokens[:, position : position + 1]
        output, cache = layer(
            token, token, cache=cache, cache_position=position, use_causal_mask=True
        )
        steps.append(output)
    together = layer(tokens, tokens, use_causal_mask=True)
    np.testing.assert_allclose(tf.concat(steps, axis=1), together, atol=1e-5)


def test_dropout_is_drawn_anew_in_every_training_step_and_never_in_inference():
    layer = MultiHeadAttention(2, 4, dropout=0.5, seed=1, method="blockwise")
    tokens = keras.random.normal((2, 9, 6))
    first, second = (np.array(layer(tokens, tokens, training=True)) for _ in range(2))
    assert np.any(first != second)
    np.testing.assert_array_equal(layer(tokens, tokens), layer(tokens, tokens))


def test_scores_are_refused_blockwise_and_given_by_auto():
    (layer, _), tokens, _ = _pair()
    with pytest.raises(ValueError, match="Received: method='blockwise', return_weights=True"):
        layer(tokens, tokens, return_attention_scores=True)
    _, scores = MultiHeadAttention(2, 4)(tokens, tokens, return_attention_scores=True)
    assert scores.shape == (2, 2, 9, 9)


def test_method_is_checked_and_kept_in_the_config():
    layer = MultiHeadAttention(2, 4, method="blockwise")
    assert MultiHeadAttention.from_config(layer.get_config()).method == "blockwise"
    with pytest.raises(ValueError, match="Received: method='sparse'"):
        MultiHeadAttention(2, 4, method="sparse")


def test_decoder_block_is_blockwise_by_auto_and_equal(monkeypatch):
    block = TransformerDecoderBlock(2, 8)
    tokens, memory = keras.random.normal((2, 7, 6)), keras.random.normal((2, 5, 6))
    dense = block(tokens, memory)
    calls = []

    def counting(*arguments, **options):
        calls.append(arguments)
        return blockwise(*arguments, **options)

    blockwise = attention.blockwise_attention
    monkeypatch.setattr(attention, "blockwise_attention", counting)
    monkeypatch.setattr(attention, "SHORTEST_BLOCKWISE", 1)
    monkeypatch.setattr(attention, "MOST_DENSE_WEIGHTS", 1)
    np.testing.assert_allclose(block(tokens, memory), dense, atol=1e-5)
    assert len(calls) == 2
    block(tokens, memory, return_attention_scores=True)
    assert len(calls) == 2


def test_fit_compiled_by_xla_takes_the_same_steps_as_dense():
    """Keras compiles the training step where it can, so the loops stand inside XLA."""
    weights = []
    for method in ("blockwise", "dense"):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((9, 6))
        outputs = MultiHeadAttention(2, 4, method=method)(inputs, inputs, use_causal_mask=True)
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=True)
        tokens = np.random.default_rng(0).standard_normal((4, 9, 6)).astype("float32")
        model.fit(tokens, tokens, batch_size=2, epochs=2, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for blockwise, dense in zip(*weights, strict=True):
        np.testing.assert_allclose(blockwise, dense, atol=1e-5)


def test_exported_model_gives_the_same_outputs_and_gradient_after_reload(tmp_path):
    inputs = keras.Input((None, 6), name="tokens")
    outputs = MultiHeadAttention(2, 4, method="blockwise")(inputs, inputs, use_causal_mask=True)
    model = keras.Model(inputs, outputs)
    module = tf.saved_model.load(str(export(model, tmp_path)))
    served = module.signatures["serving_default"]
    tokens = keras.random.normal((2, 9, 6))
    results = []
    for run in (model, lambda x: served(tokens=x)["output_0"]):
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            output = run(tokens)
        results.append([output, tape.gradient(output, tokens)])
    for expected, reloaded in zip(*results, strict=True):
        np.testing.assert_allclose(reloaded, expected, atol=1e-6)


def test_mirrored_replicas_take_the_step_of_one_device():
    """In a replica context the loops are compiled like any pure function of tensors."""
    tokens = keras.random.normal((2, 16, 2, 4))

    @tf.function
    def gradient(tokens):
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            output = attention.dot_product_attention(
                tokens, tokens, tokens, causal=True, method="blockwise"
            )
            loss = tf.reduce_sum(tf.sin(output))
        return tape.gradient(loss, tokens)

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    np.testing.assert_allclose(
        tf.function(lambda: strategy.run(gradient, (tokens,)))(), gradient(tokens), atol=1e-6
    )
