"""Integers, booleans and nested lists are taken wherever floats and arrays are."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import layers

RNG = np.random.default_rng(8)
TOKENS, MEMORY = RNG.integers(-2, 3, (2, 4, 8)), RNG.integers(-2, 3, (2, 4, 6))
EXISTS = np.array([[True, True, True, False], [True, False, False, False]])
SQUARE = np.tril(np.ones((4, 4), bool))

LAYERS = {
    "multi-head": lambda **k: layers.MultiHeadAttention(2, 4, use_gate=True, **k),
    "multi-head with positions": lambda **k: layers.MultiHeadAttention(2, 4, rotary=True, **k),
    "additive": lambda **k: layers.AdditiveAttention(5, normalize=True, **k),
    "multiplicative": lambda **k: layers.LuongAttention("scaled", **k),
    "decoder block": lambda **k: layers.TransformerDecoderBlock(2, 6, **k),
    "encoder block": lambda **k: _OfOne(layers.TransformerEncoderBlock(2, 6, **k)),
    "feed-forward": lambda **k: _OfOne(layers.FeedForward(6, "geglu", **k)),
}


class _OfOne:
    """A layer of one tensor, called with two of which the second is left away."""

    def __init__(self, layer):
        self.layer = layer
        self.compute_dtype = layer.compute_dtype

    def __call__(self, tokens, memory):
        return self.layer(tokens)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "bool"])
def test_whole_numbers_are_cast(name, dtype, kind):
    layer = LAYERS[name](dtype=dtype)
    tokens, memory = (abs(x).astype(kind) for x in (TOKENS, MEMORY))
    expected = layer(tokens.astype("float32"), memory.astype("float32"))
    for made in (layer(tokens, memory), layer(tokens.astype("float32"), memory),
                 layer(tokens, memory.astype("float32"))):  # fmt: skip
        assert made.dtype == layer.compute_dtype
        np.testing.assert_array_equal(tf.cast(made, "float32"), tf.cast(expected, "float32"))


@pytest.mark.parametrize("name", LAYERS)
def test_functional_inputs_of_integers(name):
    layer = LAYERS[name]()
    inputs = [keras.Input((None, x.shape[-1]), dtype="int32") for x in (TOKENS, MEMORY)]
    outputs = layer(*inputs)
    assert outputs.dtype == "float32"
    model = keras.Model(inputs, outputs)
    expected = layer(TOKENS.astype("float32"), MEMORY.astype("float32"))
    np.testing.assert_allclose(model([TOKENS, MEMORY]), expected, atol=1e-6)


def test_a_third_tensor_a_cache_and_projected_memories_of_integers():
    floats = TOKENS.astype("float32")
    layer = layers.MultiHeadAttention(2, 4)
    np.testing.assert_array_equal(
        layer(floats, floats, TOKENS), layer(floats, floats, floats.copy())
    )
    cache = RNG.integers(-2, 3, (2, 2, 6, 2, 4))
    results = [
        layer(x, x, cache=c, cache_position=2)
        for x, c in ((TOKENS, cache), (floats, cache.astype("float32")))
    ]
    for whole, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(whole, expected)
    block = layers.TransformerDecoderBlock(2, 6)
    block(floats, floats)
    np.testing.assert_array_equal(
        block(TOKENS, memory_cache=cache), block(floats, memory_cache=cache.astype("float32"))
    )
    for attention in (layers.AdditiveAttention(5), layers.LuongAttention()):
        attention(floats, floats)
        keys = TOKENS[..., :5] if isinstance(attention, layers.AdditiveAttention) else TOKENS
        np.testing.assert_array_equal(
            attention.attend(TOKENS, keys, TOKENS)[0],
            attention.attend(floats, keys.astype("float32"), floats)[0],
        )


MASKS = [{"query_mask": EXISTS}, {"value_mask": EXISTS}, {"key_mask": EXISTS},
         {"attention_mask": SQUARE}, {"attention_mask": np.stack([SQUARE, ~SQUARE])}]  # fmt: skip


@pytest.mark.parametrize("masks", MASKS, ids=lambda masks: next(iter(masks)))
@pytest.mark.parametrize("name", ["multi-head", "additive", "multiplicative"])
def test_nested_lists_are_masks_of_attention(name, masks):
    layer = LAYERS[name]()
    tokens, memory = TOKENS.astype("float32"), MEMORY.astype("float32")
    options = {"return_attention_scores": True}
    expected = layer(tokens, memory, **masks, **options)
    assert np.any(expected[0] != layer(tokens, memory))
    lists = {key: mask.tolist() for key, mask in masks.items()}
    for got, wanted in zip(layer(tokens, memory, **lists, **options), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_nested_lists_are_masks_of_blocks_and_stay_masks_behind_them():
    tokens, memory = TOKENS.astype("float32"), MEMORY.astype("float32")
    encoder, decoder = layers.TransformerEncoderBlock(2, 6), layers.TransformerDecoderBlock(2, 6)
    second = layers.TransformerEncoderBlock(2, 6)
    for run in (
        lambda kind: second(encoder(tokens, mask=kind(EXISTS), attention_mask=kind(SQUARE))),
        lambda kind: second(decoder(tokens, memory, mask=kind(EXISTS), memory_mask=kind(EXISTS))),
        lambda kind: decoder(
            tokens[:, :1], memory_cache=decoder.project_memory(memory, kind(EXISTS)),
            memory_mask=kind(EXISTS), mask=kind(EXISTS), cache=decoder.initial_cache(2, 4),
            cache_position=0,
        )[0],
    ):  # fmt: skip
        np.testing.assert_array_equal(run(np.ndarray.tolist), run(np.asarray))


def test_nested_lists_are_masks_with_a_cache_and_over_some_axes():
    tokens = TOKENS.astype("float32")
    layer = layers.MultiHeadAttention(2, 4)
    layer(tokens, tokens)
    for masks in ({"value_mask": EXISTS}, {"query_mask": EXISTS}, {"attention_mask": SQUARE}):
        outputs = [
            layer(
                tokens, tokens, cache=layer.initial_cache(2, 6), cache_position=0,
                **{name: kind(mask) for name, mask in masks.items()},
            )[0]
            for kind in (np.asarray, np.ndarray.tolist)
        ]  # fmt: skip
        np.testing.assert_array_equal(*outputs)
    grid = RNG.standard_normal((2, 4, 4, 8)).astype("float32")
    layer = layers.MultiHeadAttention(2, 4, attention_axes=(2,))
    for masks in ({"value_mask": np.stack([SQUARE, SQUARE])}, {"attention_mask": SQUARE}):
        outputs = [
            layer(grid, grid, **{name: kind(mask) for name, mask in masks.items()})
            for kind in (np.asarray, np.ndarray.tolist)
        ]
        np.testing.assert_array_equal(*outputs)
