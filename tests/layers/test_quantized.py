"""Quantised layers and models compute in integers and come back from their files as they were."""

import functools
import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from quantized_program import float_kernels

from keras_attn import layers
from keras_attn.models import RNNSearch, Transformer

RNG = np.random.default_rng(9)
TOKENS, MEMORY = (RNG.standard_normal((2, 4, n)).astype("float32") for n in (8, 6))
SENTENCES = {
    "source": RNG.integers(0, 20, (2, 5)).astype("int32"),
    "source_lengths": np.array([5, 3], "int32"),
    "target": RNG.integers(0, 20, (2, 4)).astype("int32"),
}


def _functional(layer):
    inputs = {"tokens": keras.Input((None, 8)), "memory": keras.Input((None, 6))}
    takes_memory = not isinstance(layer, layers.FeedForward | layers.TransformerEncoderBlock)
    outputs = layer(*inputs.values()) if takes_memory else layer(inputs["tokens"])
    return keras.Model(inputs, outputs), {"tokens": TOKENS, "memory": MEMORY}


def _decoder_only():
    inputs = keras.Input((None, 8))
    return keras.Model({"tokens": inputs}, layers.TransformerDecoderBlock(2, 6)(inputs))


def _transformer(**options):
    sizes = {"dim": 8, "num_heads": 2, "intermediate_dim": 12}
    return Transformer(20, 20, encoder_layers=1, decoder_layers=1, max_length=6, **sizes | options)


def _rnn_search(**options):
    sizes = {f"{name}_units": 6 for name in ("encoder", "decoder", "attention", "readout")}
    return RNNSearch(20, 20, embedding_dim=6, **sizes, **options)


MODELS = {
    "multi_head": lambda: _functional(
        layers.MultiHeadAttention(4, 4, num_key_value_heads=2, rotary=True, use_gate=True)
    ),
    "feed_forward": lambda: _functional(layers.FeedForward(6, "swiglu")),
    "half_encoder_block": lambda: _functional(
        layers.TransformerEncoderBlock(2, 6, activation="gelu", dtype="mixed_bfloat16")
    ),
    "decoder_block": lambda: _functional(
        layers.TransformerDecoderBlock(2, 6, normalize_first=True, normalization="rms")
    ),
    "decoder_only": lambda: (_decoder_only(), {"tokens": TOKENS}),
    "in_other_models": lambda: _sequential(),
    "transformer": lambda: (_transformer(), SENTENCES),
    "half_transformer": lambda: (
        _transformer(
            tie_embeddings=False, share_embeddings=False, positions="rotary", dtype="mixed_bfloat16"
        ),
        SENTENCES,
    ),
    "rnn_search": lambda: (_rnn_search(), SENTENCES),
    "int4_rnn_search": lambda: (_rnn_search(tie_embeddings=True, cell="lstm"), SENTENCES),
}


def _sequential():
    blocks = [layers.TransformerEncoderBlock(2, 6), keras.layers.TimeDistributed(_feed_forward())]
    model = keras.Sequential([keras.Input((4, 8)), *blocks])
    tokens = keras.Input((4, 8))
    return keras.Model({"tokens": tokens}, model(tokens)), {"tokens": TOKENS}


def _feed_forward():
    return layers.FeedForward(6, "glu")


def _quantize(model, *arguments, **options):
    gc.freeze()  # Keras collects garbage for every kernel that it replaces
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every layer without anything to quantise
        model.quantize(*arguments, **options)
    gc.unfreeze()


@functools.cache
def _quantized(name):
    model, inputs = MODELS[name]()
    model.set_weights([w + 0.2 * RNG.standard_normal(w.shape) for w in model.get_weights()])
    outputs = tf.cast(model(inputs), "float32")
    _quantize(model, "int4" if name.startswith("int4") else "int8")
    return model, inputs, outputs


def test_quantised_models_come_back_in_a_fresh_process(tmp_path):
    for name in MODELS:
        model, inputs, exact = _quantized(name)
        outputs = tf.cast(model(inputs), "float32").numpy()
        assert float_kernels(model) == []
        assert 0 < np.max(np.abs(outputs - exact)) < 0.3
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", outputs=outputs, **inputs)
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("quantized_program.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout.splitlines()[-1]) == {name: [0.0, []] for name in MODELS}


def test_projections_of_attention_are_integers_and_of_the_right_value():
    layer = layers.MultiHeadAttention(2, 4)
    layer(TOKENS, TOKENS)
    exact = layer.query_dense(TOKENS)
    layer.query_dense.quantize("int8")
    assert layer.query_dense.kernel.dtype == "int8"
    assert layer.key_dense.kernel.dtype == "float32"
    assert layer.query_dense.kernel_scale.shape == (1, 1, 2, 4)
    np.testing.assert_allclose(layer.query_dense(TOKENS), exact, atol=0.05)


def test_only_some_layers_are_quantised_and_come_back_so(tmp_path):
    model, inputs = MODELS["transformer"]()
    _quantize(model, "int8", filters="^(query|hidden)$")
    modes = {layer.path: layer.quantization_mode for layer in model._flatten_layers()}
    assert sum(mode == "int8" for mode in modes.values()) == 3 + 2  # queries, hidden layers
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert {layer.path: layer.quantization_mode for layer in loaded._flatten_layers()} == modes
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


@pytest.mark.parametrize("name", ["transformer", "half_transformer"])
def test_cached_steps_of_a_quantised_transformer_equal_the_whole(name):
    model, inputs, _ = _quantized(name)
    expected = model(inputs)
    assert expected.dtype == "float32"
    state = model.initial_state(model.encode(inputs))
    for t in range(4):
        logits, state, _ = model.step(inputs["target"][:, t], state)
        assert logits.dtype == "float32"
        tolerance = 1e-5 if name == "transformer" else 0.2
        np.testing.assert_allclose(logits, expected[:, t], atol=tolerance)


@pytest.mark.parametrize("name", ["transformer", "decoder_block"])
def test_a_quantised_model_is_exported(name, tmp_path):
    model, inputs, _ = _quantized(name)
    model.export(tmp_path / "model", verbose=False)
    reloaded = tf.saved_model.load(tmp_path / "model")
    tensors = {key: tf.constant(value) for key, value in inputs.items()}
    np.testing.assert_allclose(reloaded.serve(tensors), model(inputs), atol=1e-6)


def test_xla_compiles_a_quantised_layer():
    model, inputs, _ = _quantized("multi_head")
    compiled = tf.function(model, jit_compile=True)
    np.testing.assert_allclose(compiled(inputs), model(inputs), atol=1e-5)


def test_the_float_weights_of_a_quantised_output_layer_are_refused():
    for name in ("transformer", "rnn_search"):
        model, _, _ = _quantized(name)
        with pytest.raises(
            ValueError, match=r"before it is quantised\. Received: quantization_mode"
        ):
            _ = model.output_table


def test_what_a_file_cannot_keep_is_refused():
    model, _ = MODELS["feed_forward"]()
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    _quantize(model, config=config)
    with pytest.raises(ValueError, match=r"by the mode alone.*Received: activation_quantizer=None"):
        model.get_config()
    for make in (_transformer, _rnn_search):
        with pytest.raises(ValueError, match="Received: dtype='int8_from_float32'"):
            make(dtype="int8_from_float32")


def test_a_model_in_a_dtype_of_its_own_is_that_of_the_global_policy():
    models = {"transformer": _transformer, "rnn_search": _rnn_search}
    for make in models.values():
        given = make(dtype="mixed_bfloat16")
        keras.config.set_dtype_policy("mixed_bfloat16")
        try:
            globally = make()
        finally:
            keras.config.set_dtype_policy("float32")
        globally.set_weights(given.get_weights())
        np.testing.assert_array_equal(given(SENTENCES), globally(SENTENCES))
        copy = type(given).from_config(json.loads(json.dumps(given.get_config())))
        copy.set_weights(given.get_weights())
        np.testing.assert_array_equal(copy(SENTENCES), given(SENTENCES))
        assert globally.get_config()["dtype"] is None
