"""Luong attention against its equations, and the interface it shares with additive attention."""

import inspect

import keras
import numpy as np
import pytest

from keras_attn.layers import AdditiveAttention, LuongAttention

QUERY = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
EXISTS = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]], bool)


def _memory(size):
    return np.random.default_rng(2).standard_normal((2, 5, size)).astype("float32")


@pytest.mark.parametrize(("score", "size"), [("dot", 4), ("general", 6), ("scaled", 6)])
def test_scores_are_those_of_the_paper(score, size):
    layer, memory = LuongAttention(score), _memory(size)
    layer(QUERY, memory)
    layer.set_weights([w + 0.5 for w in layer.get_weights()])
    weights = {weight.name: weight.numpy() for weight in layer.weights}
    keys = memory @ weights.get("key_kernel", np.eye(4))
    scores = weights.get("score_scale", 1.0) * np.einsum("btd,bsd->bts", QUERY, keys)
    expected = np.exp(scores) * EXISTS[:, None]
    expected = expected / np.maximum(expected.sum(-1, keepdims=True), 1e-30)
    context, got = layer(QUERY, memory, value_mask=EXISTS, return_attention_scores=True)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    np.testing.assert_allclose(context, expected @ memory, atol=1e-5)
    assert np.all(got.numpy()[~np.broadcast_to(EXISTS[:, None], got.shape)] == 0)


def test_both_attentions_offer_a_decoder_the_same_methods():
    def signature(layer, method):
        return list(inspect.signature(getattr(layer, method)).parameters)

    for method in ("project_memory", "attend", "call", "build"):
        assert signature(LuongAttention, method) == signature(AdditiveAttention, method)


@pytest.mark.parametrize("layer", [
    LuongAttention(), LuongAttention("scaled"),
    AdditiveAttention(3), AdditiveAttention(3, use_bias=True, normalize=True),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_steps_over_a_projected_memory_equal_the_call(layer, policy):
    layer = type(layer).from_config({**layer.get_config(), "dtype": policy})
    memory = _memory(6)
    context, weights = layer(QUERY, memory, value_mask=EXISTS, return_attention_scores=True)
    keys = layer.project_memory(memory, EXISTS)
    values = keras.ops.cast(memory, layer.compute_dtype)
    tolerance = 1e-6 if policy == "float32" else 2e-2
    for t in range(3):
        one_context, one_weights = layer.attend(QUERY[:, t], keys, values, EXISTS)
        assert one_context.dtype == one_weights.dtype == layer.compute_dtype
        for got, expected in ((one_context, context), (one_weights, weights)):
            np.testing.assert_allclose(
                keras.ops.cast(got, "float32"),
                keras.ops.cast(expected[:, t], "float32"),
                atol=tolerance,
            )


def _built(layer):
    layer(QUERY, _memory(6))
    return layer


@pytest.mark.parametrize(("run", "message"), [
    (lambda: LuongAttention("concat"), "one of.*Received: score='concat'"),
    (lambda: LuongAttention("dot")(QUERY, _memory(6)),
     r"one size.*Received: query_shape=\(2, 3, 4\), key_shape=\(2, 5, 6\)"),
    (lambda: AdditiveAttention(0), "Received: units=0"),
    (lambda: AdditiveAttention(3)(QUERY, _memory(6), value_mask=np.ones((2, 4), bool)),
     r"Received: value_mask.shape=\(2, 4\)"),
    (lambda: AdditiveAttention(3)(QUERY, _memory(6), attention_mask=np.ones((2, 3, 5))),
     "Received: attention_mask.dtype="),
    (lambda: LuongAttention()(QUERY, _memory(6), query_mask=np.ones((2, 5), bool)),
     r"Received: query_mask.shape=\(2, 5\)"),
    (lambda: _built(LuongAttention()).project_memory(_memory(6), np.ones((2, 4), bool)),
     r"Received: mask.shape=\(2, 4\)"),
    (lambda: _built(AdditiveAttention(3)).attend(
        QUERY[:, 0], np.ones((2, 5, 3), "float32"), _memory(6), np.ones((2, 4), bool)),
     r"Received: mask.shape=\(2, 4\)"),
    (lambda: LuongAttention()(QUERY[0], _memory(6)), r"Received: query.shape=\(3, 4\)"),
])  # fmt: skip
def test_bad_arguments_are_refused_with_what_was_received(run, message):
    with pytest.raises(ValueError, match=message):
        run()
