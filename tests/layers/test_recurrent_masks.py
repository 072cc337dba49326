"""Masks of the recurrent layers: those that the tensor carries, and those that do not fit."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import (
    GRU,
    LSTM,
    AdditiveAttention,
    AttentionCell,
    AttentionRNN,
    GRUCell,
    PeepholeLSTM,
)
from keras_attn.ops import gru_scan, lstm_scan, scan

IDS = np.array([[3, 2, 0, 0], [1, 4, 2, 0]])
LAYERS = {
    "LSTM": LSTM,
    "LSTM-relu": functools.partial(LSTM, activation="relu"),
    "PeepholeLSTM-unrolled": functools.partial(PeepholeLSTM, unroll=True),
    "GRU": GRU,
    "GRU-backwards": functools.partial(GRU, go_backwards=True, reset_after=True),
}
all_layers = pytest.mark.parametrize("layer_class", LAYERS.values(), ids=LAYERS)


def _embedded():
    return keras.layers.Embedding(9, 4, mask_zero=True)(IDS)


def _states(layer, count=1):
    return [tf.fill([2, size], 0.3) for size in layer.state_size] * count


@all_layers
def test_a_mask_that_the_sequences_carry_is_used_beside_an_initial_state(layer_class):
    layer, embedded = layer_class(3, return_sequences=True), _embedded()
    states = _states(layer)
    expected = layer(np.array(embedded), initial_state=states, mask=IDS != 0)
    got = layer(embedded, initial_state=states)
    np.testing.assert_array_equal(got, expected)
    assert np.any(got != layer(np.array(embedded), initial_state=states))
    np.testing.assert_array_equal(got._keras_mask, expected._keras_mask)


@pytest.mark.parametrize("layer_class", [LSTM, PeepholeLSTM, GRU, LAYERS["LSTM-relu"]])
def test_it_is_used_in_bidirectional_too(layer_class):
    embedded = _embedded()
    both = keras.layers.Bidirectional(layer_class(3, return_sequences=True))
    states = _states(both.forward_layer, 2)
    expected = both(np.array(embedded), initial_state=states, mask=IDS != 0)
    np.testing.assert_array_equal(both(embedded, initial_state=states), expected)


def test_it_is_used_in_a_functional_model_and_comes_back_with_it(tmp_path):
    ids, h, c = keras.Input((4,), dtype="int32"), keras.Input((3,)), keras.Input((3,))
    embedded = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    model = keras.Model([ids, h, c], LSTM(3)(embedded, initial_state=[h, c]))
    arguments = [IDS, np.ones((2, 3)), np.ones((2, 3))]
    table, kernel, *others = model.get_weights()
    layer = LSTM(3)
    layer.build((None, 4, 4))
    layer.set_weights([kernel, *others])
    expected = layer(table[IDS], initial_state=arguments[1:], mask=IDS != 0)
    np.testing.assert_allclose(model(arguments), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(arguments, verbose=0), expected, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(arguments), model(arguments))


@pytest.mark.parametrize(
    "cell",
    [GRUCell(3), keras.layers.LSTMCell(3), keras.layers.GRUCell(3)],
    ids=["by-hand", "by-hand-LSTM", "steps"],
)
def test_an_attending_layer_uses_the_masks_of_its_inputs_and_its_memory(cell):
    rnn = AttentionRNN(cell, AdditiveAttention(2), return_alignments=True)
    embedded, memory = _embedded(), _embedded()
    plain = np.array(embedded), np.array(memory)
    expected = rnn(*plain, mask=IDS != 0, memory_mask=IDS != 0)
    got = rnn(embedded, memory)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.any(got[0] != rnn(*plain, memory_mask=IDS != 0)[0])
    np.testing.assert_array_equal(got[0]._keras_mask, IDS != 0)
    assert not hasattr(got[1], "_keras_mask")


INPUTS = np.ones((2, 3, 4), "float32")
WRONG = [(2, 5), (2, 2), (3, 3), (2, 1), (6,), (2, 3, 1)]
CALLS = {
    "attention-rnn": lambda mask: AttentionRNN(GRUCell(3), AdditiveAttention(2))(
        INPUTS, INPUTS, mask=mask
    ),
    "attention-rnn-steps": lambda mask: AttentionRNN(keras.layers.GRUCell(3), AdditiveAttention(2))(
        INPUTS, INPUTS, mask=mask
    ),
    "bidirectional": lambda mask: keras.layers.Bidirectional(GRU(3))(INPUTS, mask=mask),
    "scan": lambda mask: scan(lambda x, s: (x, s), INPUTS, tf.zeros([2, 1]), mask=mask),
    "scan-time-major": lambda mask: scan(
        lambda x, s: (x, s),
        tf.transpose(INPUTS, [1, 0, 2]),
        tf.zeros([2, 1]),
        mask=np.swapaxes(mask, 0, 1) if mask.ndim > 1 else mask,
        time_major=True,
    ),
    "lstm_scan": lambda mask: lstm_scan(
        tf.constant(INPUTS), [tf.zeros([2, 3])] * 2, tf.ones([4, 12]), tf.ones([3, 12]), mask=mask
    ),
    "gru_scan": lambda mask: gru_scan(
        tf.constant(INPUTS), tf.zeros([2, 3]), tf.ones([4, 9]), tf.ones([3, 9]), mask=mask
    ),
    "symbolic": lambda mask: LSTM(3)(
        keras.Input((3, 4), batch_size=2),
        mask=keras.Input(batch_shape=mask.shape, dtype="bool"),
    ),
    "symbolic-attention-rnn": lambda mask: AttentionRNN(GRUCell(3), AdditiveAttention(2))(
        keras.Input((3, 4), batch_size=2),
        keras.Input((3, 4), batch_size=2),
        mask=keras.Input(batch_shape=mask.shape, dtype="bool"),
    ),
    **{name: lambda mask, make=make: make(3)(INPUTS, mask=mask) for name, make in LAYERS.items()},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_mask_of_another_length_is_refused_in_one_sentence(name):
    sentence = r"one entry for each sequence and step.*Received: mask\.shape="
    for shape in WRONG:
        with pytest.raises(ValueError, match=sentence):
            CALLS[name](np.ones(shape, bool))


@pytest.mark.parametrize("options", [{}, {"activation": "relu"}], ids=["by-hand", "steps"])
def test_a_graph_that_learns_the_lengths_when_it_runs_stops_with_that_sentence(options):
    layer = LSTM(3, **options)
    run = tf.function(
        lambda x, mask: layer(x, mask=mask),
        input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None], tf.bool)],
    )
    assert run(INPUTS, np.ones((2, 3), bool)).shape == (2, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one entry for each sequence and"):
        run(INPUTS, np.ones((2, 5), bool))


@all_layers
def test_a_mask_for_all_sequences_or_in_lists_is_that_mask(layer_class):
    layer = layer_class(3, return_sequences=True)
    mask = [[True, False, True]]
    expected = layer(INPUTS, mask=np.repeat(mask, 2, axis=0))
    for given in (np.array(mask), mask * 2):
        got = layer(INPUTS, mask=given)
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="lists of True and False of equal lengths"):
        layer(INPUTS, mask=[[True, False], [True]])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "float64"])
@all_layers
def test_integers_and_booleans_are_numbers(layer_class, dtype):
    layer = layer_class(3)
    numbers = (np.arange(24).reshape(2, 3, 4) % 3).astype(dtype)
    expected = layer(numbers.astype("float32"))
    np.testing.assert_array_equal(layer(numbers), expected)
    symbol = keras.Input((3, 4), dtype=dtype)
    np.testing.assert_array_equal(keras.Model(symbol, layer(symbol))(numbers), expected)
    assert keras.layers.Bidirectional(GRU(3))(numbers).shape == (2, 6)
    state = [np.ones((2, size), "int32") for size in layer.state_size]
    got, wanted = (layer(numbers, initial_state=s) for s in (state, [1.0 * s for s in state]))
    np.testing.assert_array_equal(got, wanted)
    (step, _), (same, _) = (
        layer.cell(x[:, 0], state, training=True) for x in (numbers, numbers.astype("float32"))
    )
    np.testing.assert_array_equal(step, same)


def test_symbolic_masks_that_are_no_masks_are_refused_when_a_model_is_built():
    symbol, memory, state = keras.Input((3, 4)), keras.Input((5, 2)), keras.Input((3,))
    floats, longer = keras.Input((3,)), keras.Input((7,), dtype="bool")
    rnn = AttentionRNN(GRUCell(3), AdditiveAttention(2))
    cell = AttentionCell(GRUCell(3), AdditiveAttention(2))
    bad_calls = {
        "mask.dtype=float32": lambda: rnn(symbol, memory, mask=floats),
        r"memory_mask.shape=\(None, 7\)": lambda: rnn(symbol, memory, memory_mask=longer),
        r"Received: memory_mask.shape=\(None, 7\)": lambda: cell(
            symbol[:, 0], [state], memory, memory_mask=longer
        ),
        "Received: mask.dtype=float32": lambda: LSTM(3)(symbol, mask=floats),
    }
    for received, call in bad_calls.items():
        with pytest.raises(ValueError, match=f"(?m){received}"):
            call()


@all_layers
def test_other_features_than_a_layer_was_built_for_are_refused(layer_class):
    layer = layer_class(3)
    layer(INPUTS)
    wrong = np.ones((2, 3, 5), "float32")
    for call in (lambda: layer(wrong), lambda: layer.compute_output_shape((2, 3, 5))):
        with pytest.raises(ValueError, match=r"built for.*Received: sequences.shape=\(2, 3, 5\)"):
            call()
