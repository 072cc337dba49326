"""Multi-head attention takes the place of Keras': its arguments, its gate, its weight files."""

import inspect

import h5py
import keras
import numpy as np
import pytest

from keras_attn.layers import MultiHeadAttention

RNG = np.random.default_rng(6)
QUERY = RNG.standard_normal((2, 3, 6)).astype("float32")
VALUE = RNG.standard_normal((2, 3, 4)).astype("float32")


def _model(layer, moved=True):
    inputs = keras.Input((None, 6)), keras.Input((None, 4))
    model = keras.Model(inputs, layer(*inputs))
    if moved:
        model.set_weights([w + 0.3 * RNG.standard_normal(w.shape) for w in model.get_weights()])
    return model


def test_positional_arguments_stand_where_keras_has_them():
    ours = inspect.signature(MultiHeadAttention.__init__).parameters
    keras_names = list(inspect.signature(keras.layers.MultiHeadAttention.__init__).parameters)
    positional = [p.name for p in ours.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == keras_names[:-1]  # all but its kwargs
    for name, parameter in ours.items():
        if name in keras_names:
            theirs = inspect.signature(keras.layers.MultiHeadAttention.__init__).parameters[name]
            assert parameter.default == theirs.default


def test_a_config_of_keras_makes_our_layer():
    theirs = keras.layers.MultiHeadAttention(4, 2, 3, 0.1, False, sliding_window=2, use_gate=True)
    config = MultiHeadAttention.from_config(theirs.get_config()).get_config()
    shared = set(theirs.get_config()) & set(config)
    assert {"dropout", "sliding_window", "use_gate", "use_bias", "value_dim"} <= shared
    assert {name: config[name] for name in shared} == {
        name: theirs.get_config()[name] for name in shared
    }


@pytest.mark.parametrize("number", [1, 2, 8, np.int64(2), True, False, None])
def test_a_number_of_key_heads_in_the_place_of_dropout_is_refused(number):
    spelling = number if isinstance(number, int | np.integer) and number is not True else "N"
    spelling = "N" if number is False else spelling
    with pytest.raises(ValueError, match=f"num_key_value_heads={spelling}. Received: dropout="):
        MultiHeadAttention(8, 64, 64, number)
    with pytest.raises(ValueError, match="fourth argument is `dropout`"):
        MultiHeadAttention(8, 64, dropout=number)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, "0.1"])
def test_a_dropout_that_is_no_probability_is_refused(rate):
    with pytest.raises(ValueError, match=r"at least 0 and below 1\. Received: dropout="):
        MultiHeadAttention(8, 64, 64, rate)


def test_no_dropout_may_be_an_integer():
    assert MultiHeadAttention(8, 64, 64, 0).dropout == MultiHeadAttention(8, 64, dropout=0).dropout
    assert MultiHeadAttention(8, 64, 64, 0.25).dropout == 0.25


def test_a_fused_kernel_is_refused_and_its_absence_is_not():
    with pytest.raises(ValueError, match=r"method='blockwise'.*Received: flash_attention=True"):
        MultiHeadAttention(2, 3, flash_attention=True)
    for absent in (None, False):
        assert MultiHeadAttention(2, 3, flash_attention=absent).flash_attention is absent


def test_both_names_of_the_window_are_one_setting():
    for arguments in ({"window": 2}, {"sliding_window": 2}, {"window": 2, "sliding_window": 2}):
        assert MultiHeadAttention(2, 3, **arguments).window == 2
    with pytest.raises(ValueError, match="Received: window=2, sliding_window=3"):
        MultiHeadAttention(2, 3, window=2, sliding_window=3)
    with pytest.raises(ValueError, match="Received: sliding_window=0"):
        MultiHeadAttention(2, 3, sliding_window=0)


@pytest.mark.parametrize("options", [
    {"use_gate": True}, {"use_gate": True, "value_dim": 3, "use_bias": False},
    {"sliding_window": 2}, {"output_shape": (2, 3), "dropout": 0.1},
], ids=str)  # fmt: skip
def test_weight_files_of_keras_load_and_ours_load_into_keras(options, tmp_path):
    path = tmp_path / "their.weights.h5"
    theirs = _model(keras.layers.MultiHeadAttention(2, 4, **options))
    theirs.save_weights(path)
    ours = _model(MultiHeadAttention(2, 4, **options), moved=False)
    ours.load_weights(path)
    expected = theirs([QUERY, VALUE])
    np.testing.assert_allclose(ours([QUERY, VALUE]), expected, atol=1e-5)
    for got, wanted in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(got, wanted)

    path = tmp_path / "our.weights.h5"
    ours.save_weights(path)
    again = _model(keras.layers.MultiHeadAttention(2, 4, **options))
    assert np.max(np.abs(again([QUERY, VALUE]) - expected)) > 1e-3
    again.load_weights(path)
    np.testing.assert_array_equal(again([QUERY, VALUE]), expected)


def test_weight_files_of_grouped_attention_load(tmp_path):
    class Holder(keras.Model):
        """Files name layers by the attributes that hold them."""

        def __init__(self, attention):
            super().__init__()
            self.attention = attention

        def call(self, inputs):
            return self.attention(inputs, inputs)

    theirs = Holder(keras.layers.GroupQueryAttention(4, 4, 2))
    ours = Holder(MultiHeadAttention(4, 4, num_key_value_heads=2))
    expected = theirs(QUERY)
    theirs.save_weights(tmp_path / "their.weights.h5")
    assert np.max(np.abs(ours(QUERY) - expected)) > 1e-3
    ours.load_weights(tmp_path / "their.weights.h5")
    np.testing.assert_allclose(ours(QUERY), expected, atol=1e-5)


def test_files_from_before_the_projections_were_public_load(tmp_path):
    path = tmp_path / "model.weights.h5"
    model = _model(MultiHeadAttention(2, 4, rotary=True))
    expected = model([QUERY, VALUE])
    model.save_weights(path)
    with h5py.File(path, "a") as file:
        group = file["layers/multi_head_attention"]
        for name in ("query_dense", "key_dense", "value_dense", "output_dense"):
            assert name in group
            group.move(name, f"_{name}")
    fresh = _model(MultiHeadAttention(2, 4, rotary=True))
    fresh.load_weights(path)
    np.testing.assert_array_equal(fresh([QUERY, VALUE]), expected)


def test_the_projections_can_be_reached():
    layer = MultiHeadAttention(4, 3, value_dim=2, num_key_value_heads=2)
    layer(QUERY, VALUE)
    shapes = [
        tuple(dense.kernel.shape)
        for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
    ]
    assert shapes == [(6, 4, 3), (4, 2, 3), (4, 2, 2), (4, 2, 6)]


def test_the_gate_is_the_same_step_by_step_and_for_a_projected_memory():
    tokens = RNG.standard_normal((2, 4, 6)).astype("float32")
    layer = MultiHeadAttention(2, 4, use_gate=True)
    full = layer(tokens, tokens, use_causal_mask=True)
    cache, steps = layer.initial_cache(2, 4), []
    for t in range(4):
        token = tokens[:, t : t + 1]
        output, cache = layer(token, token, cache=cache, cache_position=t)
        steps.append(output)
    np.testing.assert_allclose(keras.ops.concatenate(steps, 1), full, atol=1e-6)
    projected, _ = layer.attend(tokens, layer.project_memory(tokens))
    np.testing.assert_allclose(projected, layer(tokens, tokens), atol=1e-6)
