"""Layers in float64 equal NumPy's float64: no scalar on the way is a float32 number."""

import math

import keras
import numpy as np
import pytest

from keras_attn import layers
from keras_attn.models.transformer import EnterTransformer
from keras_attn.ops import blockwise_attention, dot_product_attention

RNG = np.random.default_rng(4)
TOKENS, MEMORY = RNG.standard_normal((2, 5, 6)), RNG.standard_normal((2, 4, 3))
erf = np.vectorize(math.erf)


def _moved(layer, *inputs):
    layer(*inputs)
    layer.set_weights([w + 0.3 * RNG.standard_normal(w.shape) for w in layer.get_weights()])
    return layer, {w.path.split("/", 1)[1]: w.numpy() for w in layer.weights}


def _softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _attend(query, key, value):
    scores = np.einsum("btnd,bsnd->bnts", query, key) / np.sqrt(query.shape[-1])
    return np.einsum("bnts,bsnd->btnd", _softmax(scores), value)


def _multi_head(weights, query, memory, prefix=""):
    def project(x, name, equation="btd,dnh->btnh"):
        kernel, bias = weights[f"{prefix}{name}/kernel"], weights[f"{prefix}{name}/bias"]
        return np.einsum(equation, x, kernel) + bias

    heads = _attend(project(query, "query"), project(memory, "key"), project(memory, "value"))
    return project(heads, "attention_output", "btnh,nhd->btd")


def _gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def _norm(weights, x, name, kind):
    if kind == "rms":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * weights[f"{name}/norm/scale"]
    centred = x - x.mean(-1, keepdims=True)
    normalized = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
    return normalized * weights[f"{name}/norm/gamma"] + weights[f"{name}/norm/beta"]


@pytest.mark.parametrize("method", ["dense", "blockwise"])
def test_multi_head_attention(method):
    layer, weights = _moved(
        layers.MultiHeadAttention(2, 3, method=method, dtype="float64"), TOKENS, MEMORY
    )
    expected = _multi_head(weights, TOKENS, MEMORY)
    np.testing.assert_allclose(layer(TOKENS, MEMORY), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("attend", [dot_product_attention, blockwise_attention])
def test_the_function_of_multi_head_attention(attend):
    query, key = RNG.standard_normal((2, 5, 2, 7)), RNG.standard_normal((2, 4, 2, 7))
    expected = _attend(query, key, key)
    np.testing.assert_allclose(attend(query, key, key), expected, rtol=0, atol=1e-14)


def test_dropped_weights_are_divided_by_what_is_kept():
    query, seed = np.zeros((1, 3, 1, 2)), np.array([1, 2])
    value = np.ones((1, 64, 1, 1))
    for attend in (dot_product_attention, blockwise_attention):
        output = attend(query, np.zeros((1, 64, 1, 2)), value, dropout=0.3, seed=seed).numpy()
        kept = output * 64 * 0.7
        np.testing.assert_allclose(kept, np.round(kept), rtol=0, atol=1e-13)


def test_additive_attention_with_its_initial_scale():
    layer = layers.AdditiveAttention(3, normalize=True, dtype="float64")
    layer(TOKENS, MEMORY)
    assert layer.score_scale.numpy() == 3**-0.5
    query, keys = TOKENS @ layer.query_kernel.numpy(), MEMORY @ layer.key_kernel.numpy()
    vector = layer.score_vector.numpy()
    vector = vector * 3**-0.5 / np.linalg.norm(vector)
    scores = np.tanh(query[:, :, None] + keys[:, None]) @ vector
    expected = _softmax(scores) @ MEMORY
    np.testing.assert_allclose(layer(TOKENS, MEMORY), expected, rtol=0, atol=1e-14)


def test_luong_attention():
    layer, weights = _moved(layers.LuongAttention("scaled", dtype="float64"), TOKENS, MEMORY)
    scores = TOKENS @ np.swapaxes(MEMORY @ weights["key_kernel"], 1, 2) * weights["score_scale"]
    np.testing.assert_allclose(layer(TOKENS, MEMORY), _softmax(scores) @ MEMORY, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_block_with_gelu(kind):
    block, weights = _moved(
        layers.TransformerEncoderBlock(
            2, 8, activation="gelu", normalization=kind, epsilon=1e-3, dtype="float64"
        ),
        TOKENS,
    )
    x = TOKENS + _multi_head(weights, TOKENS, TOKENS, "self_attention/")
    x = _norm(weights, x, "self_attention_branch", kind)
    dense = {
        name: (weights[f"feed_forward/{name}/kernel"], weights[f"feed_forward/{name}/bias"])
        for name in ("hidden", "output")
    }
    hidden = _gelu(x @ dense["hidden"][0] + dense["hidden"][1])
    x = x + hidden @ dense["output"][0] + dense["output"][1]
    expected = _norm(weights, x, "feed_forward_branch", kind)
    np.testing.assert_allclose(block(TOKENS), expected, rtol=0, atol=2e-14)


def test_a_gated_feed_forward():
    layer, weights = _moved(layers.FeedForward(8, "geglu", dtype="float64"), TOKENS)
    hidden, gate = (
        TOKENS @ weights[f"{name}/kernel"] + weights[f"{name}/bias"] for name in ("hidden", "gate")
    )
    expected = (_gelu(hidden) * gate) @ weights["output/kernel"] + weights["output/bias"]
    np.testing.assert_allclose(layer(TOKENS), expected, rtol=0, atol=1e-14)


def test_scaled_embeddings_and_residual_dropout():
    enter = EnterTransformer(False, dtype="float64")
    np.testing.assert_allclose(enter(TOKENS), TOKENS * np.sqrt(6), rtol=0, atol=1e-15)
    block = layers.TransformerEncoderBlock(2, 8, dropout=0.3, dtype="float64")
    block(TOKENS)
    dropped = block.attention_branch._dropout(np.ones((40, 6)), training=True).numpy()
    kept = 1 - round(0.3 * 2**16) / 2**16
    np.testing.assert_allclose(dropped[dropped != 0], 1 / kept, rtol=1e-15)


def test_an_exact_gelu_is_that_of_keras_in_float32():
    x = keras.ops.convert_to_tensor(np.linspace(-6, 6, 101), "float32")
    layer = layers.FeedForward(1, keras.activations.gelu)
    np.testing.assert_array_equal(layer._activate(x), keras.activations.gelu(x))
