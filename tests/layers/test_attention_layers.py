"""Every attention layer passes the shared layer test."""

import numpy as np
import pytest
from layer_check import check_layer

from keras_attn import layers

QUERIES = np.array([[1, 1, 1], [1, 1, 0]], bool)
KEYS = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
LEFT = np.array([[1, 1, 1], [0, 1, 1]], bool)


def _random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def _with(**options):
    """How to call a layer with flags beside its tensors."""

    def call(layer, **tensors):
        first, *others = tensors
        return layer(tensors[first], **{name: tensors[name] for name in others}, **options)

    return call


def _cross():
    return {"query": _random(2, 3, 6), "value": _random(2, 4, 6)}


CROSS_MASKS = {"query_mask": ("query", QUERIES), "value_mask": ("value", KEYS)}


@pytest.mark.parametrize(("name", "causal", "arguments"), [
    ("AdditiveAttention", False, {"units": 5}),
    ("AdditiveAttention", True, {"units": 5, "normalize": True, "dropout": 0.2, "seed": 1}),
    ("LuongAttention", True, {"score": "dot", "dropout": 0.2, "seed": 1}),
    ("LuongAttention", False, {"score": "scaled"}),
    ("MultiHeadAttention", False, {"num_heads": 4, "key_dim": 3, "value_dim": 2}),
    ("MultiHeadAttention", True, {"num_heads": 4, "key_dim": 4, "num_key_value_heads": 2,
                                  "rotary": True, "window": 2}),
    ("MultiHeadAttention", False, {"num_heads": 2, "key_dim": 4, "output_shape": (2, 3),
                                   "rotary": "interleaved", "use_bias": False, "seed": 3}),
    ("MultiHeadAttention", False, {"num_heads": 2, "key_dim": 4, "value_dim": 3, "use_gate": True,
                                   "sliding_window": 2}),
])  # fmt: skip
def test_attention_between_two_sequences(name, causal, arguments, tmp_path):
    check_layer(
        lambda **kwargs: getattr(layers, name)(**arguments, **kwargs),
        _cross(),
        tmp_path,
        masks=CROSS_MASKS,
        call=_with(return_attention_scores=True, use_causal_mask=causal),
    )


def test_attention_over_some_axes(tmp_path):
    check_layer(
        lambda **kwargs: layers.MultiHeadAttention(2, 3, attention_axes=(2,), **kwargs),
        {"query": _random(2, 3, 5, 4), "value": _random(2, 3, 6, 4)},
        tmp_path,
        call=_with(return_attention_scores=True),
    )


def test_attention_with_a_cache(tmp_path):
    cache = _random(2, 2, 6, 2, 4)
    check_layer(
        lambda **kwargs: layers.MultiHeadAttention(
            4, 4, num_key_value_heads=2, rotary=True, **kwargs
        ),
        {
            "query": _random(2, 3, 6),
            "value": _random(2, 3, 6),
            "cache": cache,
            "cache_position": np.array([0, 2], "int32"),
        },
        tmp_path,
        dynamic_axes=(0,),
        call=_with(return_attention_scores=True, use_causal_mask=True),
    )


@pytest.mark.parametrize("arguments", [
    {}, {"convention": "interleaved", "rotary_dim": 4},
    {"scaling": {"type": "yarn", "factor": 4.0, "original_length": 64}},
])  # fmt: skip
def test_rotary_embedding(arguments, tmp_path):
    check_layer(
        lambda **kwargs: layers.RotaryEmbedding(**arguments, **kwargs),
        {"inputs": _random(2, 3, 2, 8), "positions": np.array([[0, 1, 2], [70, 71, 4097]])},
        tmp_path,
    )


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sinusoidal_embedding(layout, tmp_path):
    check_layer(
        lambda **kwargs: layers.SinusoidalEmbedding(layout, **kwargs),
        {"inputs": _random(2, 3, 7), "positions": np.array([[0, 1, 2], [70, 71, 4097]])},
        tmp_path,
    )


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu", "bilinear", "tanh"])
def test_feed_forward(activation, tmp_path):
    check_layer(
        lambda **kwargs: layers.FeedForward(6, activation, **kwargs),
        {"inputs": _random(2, 3, 4)},
        tmp_path,
    )


BLOCKS = [
    {"activation": "gelu"},
    {"normalization": "rms", "normalize_first": True, "activation": "swiglu", "use_bias": False,
     "num_key_value_heads": 2, "rotary": True, "window": 2},
]  # fmt: skip


@pytest.mark.parametrize(("causal", "arguments"), list(zip([False, True], BLOCKS, strict=True)))
def test_encoder_block(arguments, causal, tmp_path):
    check_layer(
        lambda **kwargs: layers.TransformerEncoderBlock(4, 8, **arguments, **kwargs),
        {"inputs": _random(2, 3, 8)},
        tmp_path,
        masks={"mask": ("inputs", LEFT if causal else QUERIES)},
        call=_with(return_attention_scores=True, use_causal_mask=causal),
    )


@pytest.mark.parametrize("arguments", BLOCKS)
def test_decoder_block(arguments, tmp_path):
    check_layer(
        lambda **kwargs: layers.TransformerDecoderBlock(4, 8, **arguments, **kwargs),
        {"inputs": _random(2, 3, 8), "memory": _random(2, 4, 6)},
        tmp_path,
        masks={"mask": ("inputs", QUERIES), "memory_mask": ("memory", KEYS)},
        call=_with(return_attention_scores=True),
    )


def test_decoder_block_without_a_memory(tmp_path):
    check_layer(
        lambda **kwargs: layers.TransformerDecoderBlock(4, 8, activation="geglu", **kwargs),
        {"inputs": _random(2, 3, 8)},
        tmp_path,
        masks={"mask": ("inputs", QUERIES)},
        call=_with(return_attention_scores=True),
    )
