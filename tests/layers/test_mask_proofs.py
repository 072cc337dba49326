"""No token sees the future or padding: proofs that every attention passes and broken ones fail."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import layers
from keras_attn.ops import masks

LENGTH = 6
RNG = np.random.default_rng(11)
TOKENS = RNG.standard_normal((3, LENGTH, 8)).astype("float32")
OTHER = RNG.standard_normal((3, LENGTH, 8)).astype("float32")


def prove_no_token_sees_the_future(attend):
    """Changing token t, alone or with all later ones, changes no output before t."""
    before = np.array(attend(TOKENS))
    for t in range(1, LENGTH):
        for end in (t + 1, LENGTH):
            changed = TOKENS.copy()
            changed[:, t:end] = OTHER[:, t:end]
            after = np.array(attend(changed))
            np.testing.assert_array_equal(after[:, :t], before[:, :t])
            assert np.all(np.abs(after[:, t] - before[:, t]).max(-1) > 0), "token t counts at t"


def prove_padding_changes_no_token(attend):
    """A token's output is the same with padding left or right, whatever it holds, in any batch."""
    for lengths in ([6, 4, 1], [2, 6, 5]):
        for left in (False, True):
            exists = np.arange(LENGTH)[None] < np.array(lengths)[:, None]
            exists = exists[:, ::-1] if left else exists
            outputs = np.array(attend(TOKENS, exists))
            changed = np.where(exists[..., None], TOKENS, OTHER)
            np.testing.assert_array_equal(
                np.array(attend(changed, exists))[exists], outputs[exists]
            )
            for example in range(3):
                alone = TOKENS[example][exists[example]][None]
                np.testing.assert_allclose(
                    outputs[example][exists[example]], attend(alone)[0], atol=1e-5
                )


def _moved(layer, *inputs):
    layer(*inputs)
    layer.set_weights([w + 0.2 * RNG.standard_normal(w.shape) for w in layer.get_weights()])
    return layer


def _self_attention(layer, **options):
    _moved(layer, TOKENS, TOKENS)
    return lambda x, exists=None: layer(x, x, query_mask=exists, value_mask=exists, **options)


def _encoder(**arguments):
    block = _moved(layers.TransformerEncoderBlock(4, 8, **arguments), TOKENS)
    return lambda x, exists=None: block(x, mask=exists, use_causal_mask=True)


def _decoder(**arguments):
    memory = RNG.standard_normal((1, 5, 8)).astype("float32")
    block = layers.TransformerDecoderBlock(4, 8, **arguments)
    _moved(block, TOKENS, np.repeat(memory, 3, axis=0))
    return lambda x, exists=None: block(x, np.repeat(memory, len(x), axis=0), mask=exists)


ROTARY = {"num_key_value_heads": 2, "rotary": True, "window": 3}
ATTENTIONS = {
    "additive": lambda: _self_attention(layers.AdditiveAttention(5), use_causal_mask=True),
    "normalised": lambda: _self_attention(
        layers.AdditiveAttention(5, normalize=True), use_causal_mask=True
    ),
    "luong": lambda: _self_attention(layers.LuongAttention(), use_causal_mask=True),
    "multi-head": lambda: _self_attention(layers.MultiHeadAttention(4, 4), use_causal_mask=True),
    "grouped rotary window": lambda: _self_attention(
        layers.MultiHeadAttention(4, 4, **ROTARY), use_causal_mask=True
    ),
    "encoder": _encoder,
    "encoder pre-norm rotary window": lambda: _encoder(normalize_first=True, **ROTARY),
    "decoder": _decoder,
    "decoder pre-norm rotary window": lambda: _decoder(normalize_first=True, **ROTARY),
}
NAMES = list(ATTENTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_no_token_sees_the_future(name):
    prove_no_token_sees_the_future(ATTENTIONS[name]())


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_no_token(name):
    prove_padding_changes_no_token(ATTENTIONS[name]())


@pytest.mark.parametrize("name", NAMES)
def test_causal_mask_off_by_one_fails_the_proof(name, monkeypatch):
    attend = ATTENTIONS[name]()
    monkeypatch.setattr(masks, "causal_mask", lambda t, s: masks._distance(t, s) >= -1)
    with pytest.raises(AssertionError):
        prove_no_token_sees_the_future(attend)


@pytest.mark.parametrize("name", NAMES)
def test_padding_that_is_ignored_fails_the_proof(name, monkeypatch):
    attend = ATTENTIONS[name]()
    combine = masks.combine
    monkeypatch.setattr(masks, "of_call", lambda *args, **kwargs: combine())
    with pytest.raises(AssertionError):
        prove_padding_changes_no_token(attend)


@pytest.mark.parametrize("name", ["additive", "luong", "multi-head"])
def test_padding_of_the_memory_changes_no_context(name):
    layer = {
        "additive": layers.AdditiveAttention(5),
        "luong": layers.LuongAttention(),
        "multi-head": layers.MultiHeadAttention(4, 4),
    }[name]
    query = keras.random.normal((3, 2, 8))
    _moved(layer, query, TOKENS)
    exists = np.arange(LENGTH)[None] < np.array([6, 3, 0])[:, None]
    output = layer(query, TOKENS, value_mask=exists)
    changed = np.where(exists[..., None], TOKENS, np.nan)
    np.testing.assert_array_equal(layer(query, changed, value_mask=exists), output)
    alone = layer(query[1:2], TOKENS[1:2, :3])
    np.testing.assert_allclose(output[1:2], alone, atol=1e-5)
    assert np.all(tf.convert_to_tensor(output)[2] == 0)
