"""A decoder block without a memory is the block of a decoder-only model."""

import keras
import numpy as np
import pytest

from keras_attn.layers import TransformerDecoderBlock, TransformerEncoderBlock

RNG = np.random.default_rng(2)
TOKENS = RNG.standard_normal((2, 5, 8)).astype("float32")
MEMORY = RNG.standard_normal((2, 4, 6)).astype("float32")
EXISTS = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
KINDS = [{}, {"normalize_first": True, "rotary": True, "window": 3, "activation": "swiglu"}]


def _moved(block, *inputs):
    block(*inputs)
    block.set_weights([w + 0.2 * RNG.standard_normal(w.shape) for w in block.get_weights()])
    return block


@pytest.mark.parametrize("options", KINDS)
def test_it_is_a_causal_encoder_block(options):
    block = _moved(TransformerDecoderBlock(2, 6, **options), TOKENS)
    same = TransformerEncoderBlock(2, 6, **options)
    same(TOKENS)
    by_name = {w.path.split("/", 1)[1]: w.numpy() for w in block.weights}
    same.set_weights([by_name[w.path.split("/", 1)[1]] for w in same.weights])
    assert len(by_name) == len(same.weights)
    outputs, weights = block(TOKENS, mask=EXISTS, return_attention_scores=True)
    expected = same(TOKENS, mask=EXISTS, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_array_equal(outputs, expected[0])
    np.testing.assert_array_equal(weights, expected[1])


@pytest.mark.parametrize("options", KINDS)
def test_cached_steps_equal_the_whole(options):
    block = _moved(TransformerDecoderBlock(2, 6, **options), TOKENS)
    full = block(TOKENS)
    cache, outputs = block.initial_cache(2, 5), []
    for first, end in ((0, 3), (3, 4), (4, 5)):
        output, cache = block(TOKENS[:, first:end], cache=cache, cache_position=first)
        outputs.append(output)
    np.testing.assert_allclose(keras.ops.concatenate(outputs, 1), full, atol=1e-5)


def test_a_functional_stack_survives_saving(tmp_path):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    for _ in range(2):
        x = TransformerDecoderBlock(2, 6)(x)
    model = keras.Model(ids, x)
    model.save(tmp_path / "model.keras")
    tokens = np.array([[1, 2, 3, 0, 0]])
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(tokens), model(tokens))
    np.testing.assert_allclose(model(tokens)[:, :3], model(tokens[:, :3]), atol=1e-5)


def test_a_block_stays_what_it_was_built_as():
    without, with_memory = TransformerDecoderBlock(2, 6), TransformerDecoderBlock(2, 6)
    without(TOKENS)
    with_memory(TOKENS, MEMORY)
    cache = with_memory.project_memory(MEMORY)
    symbols = {"memory": keras.Input((4, 6)), "memory_cache": keras.Input((2, 4, 2, 4))}
    for given in ({"memory": MEMORY}, {"memory_cache": cache}):
        with pytest.raises(ValueError, match=r"built without a memory.*Received: memory.shape="):
            without(TOKENS, **given)
        name = next(iter(given))
        with pytest.raises(ValueError, match=r"built without a memory.*Received: memory.shape="):
            without(keras.Input((5, 8)), **{name: symbols[name]})
    for tokens in (TOKENS, keras.Input((5, 8))):
        with pytest.raises(ValueError, match=r"TransformerEncoderBlock.*use_causal_mask=True"):
            with_memory(tokens)
    with pytest.raises(ValueError, match=r"give one of them.*Received: memory.shape=\(2, 4, 6\)"):
        with_memory(TOKENS, MEMORY, memory_cache=cache)
    with pytest.raises(ValueError, match=r"built without a memory.*Received: memory.shape="):
        without.project_memory(MEMORY)
    with pytest.raises(ValueError, match=r"built without a memory.*Received: memory_shape="):
        without.compute_output_shape(TOKENS.shape, MEMORY.shape)
    with pytest.raises(ValueError, match=r"with `memory` before.*Received: memory_shape=None"):
        TransformerDecoderBlock(2, 6)(TOKENS, memory_cache=cache)
