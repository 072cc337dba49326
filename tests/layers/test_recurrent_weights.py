"""Weights and settings of other layers that the recurrent layers are given."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import GRU, LSTM, PeepholeLSTM, lstm_cell

INPUTS = np.random.default_rng(0).standard_normal((2, 12, 4)).astype("float32")


def _built(layer):
    layer.build((None, None, 4))
    return layer


OTHER_FORMS = {
    "Keras-GRU": (GRU(3), keras.layers.GRU(3), "one with reset_after=True"),
    "Cho-GRU": (GRU(3, reset_after=True), GRU(3), "one with reset_after=False"),
    "GRU-bias": (GRU(3), keras.layers.GRU(3, use_bias=False), "one with use_bias=False"),
    "peepholes": (PeepholeLSTM(3), keras.layers.LSTM(3), "one with peepholes=None"),
    "full": (LSTM(3), PeepholeLSTM(3, peepholes="full"), "one with peepholes='full'"),
    "CIFG": (LSTM(3), LSTM(3, variant="CIFG"), "or variant='CIFG':"),
    "FGR": (LSTM(3, variant="FGR"), LSTM(3), "one with variant=None"),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_weights_of_another_form_are_refused_by_its_name(name, tmp_path):
    layer, other, said = OTHER_FORMS[name]
    weights = _built(other).get_weights()
    for taker in (_built(layer), layer.cell):
        with pytest.raises(ValueError, match=f"{said}.*Received: weights"):
            taker.set_weights(weights)


def test_a_weight_file_of_another_form_is_refused_by_its_name(tmp_path):
    path = tmp_path / "gru.weights.h5"
    both = [
        keras.Sequential([keras.Input((12, 4)), keras.layers.Bidirectional(layer)])
        for layer in (keras.layers.GRU(3), GRU(3), GRU(3, reset_after=True))
    ]
    both[0].save_weights(path)
    with pytest.raises(ValueError, match="reset_after=True"):
        both[1].load_weights(path)
    both[2].load_weights(path)
    np.testing.assert_allclose(both[2](INPUTS), both[0](INPUTS), atol=1e-6)


def test_where_shapes_cannot_tell_two_forms_apart_the_config_does():
    theirs = _built(keras.layers.GRU(3, use_bias=False))
    ours = _built(GRU.from_config(theirs.get_config()))
    ours.set_weights(theirs.get_weights())
    assert ours.reset_after
    np.testing.assert_allclose(ours(INPUTS), theirs(INPUTS), atol=1e-6)


def test_a_trained_lstm_goes_on_with_peepholes_of_zero():
    lstm = _built(keras.layers.LSTM(3))
    for peepholes, shape in (("diagonal", (3, 3)), ("full", (3, 9))):
        peephole = _built(PeepholeLSTM(3, peepholes=peepholes))
        peephole.set_weights([*lstm.get_weights(), np.zeros(shape)])
        np.testing.assert_allclose(peephole(INPUTS), lstm(INPUTS), atol=1e-6)


def test_weights_that_fit_no_form_are_refused_in_keras_words():
    with pytest.raises(ValueError, match="not compatible with provided weight shape"):
        _built(GRU(3)).set_weights(_built(GRU(4)).get_weights())


@pytest.mark.parametrize("tanh", [keras.ops.tanh, tf.tanh, tf.nn.tanh, keras.activations.tanh])
@pytest.mark.parametrize("layer_class", [LSTM, GRU])
def test_the_default_activations_keep_the_fast_gradient_under_every_name(layer_class, tanh):
    sigmoid = {keras.ops.tanh: keras.ops.sigmoid}.get(tanh, tf.sigmoid)
    layer = layer_class(3, activation=tanh, recurrent_activation=sigmoid)
    assert layer.has_own_gradient(training=True)
    again = layer_class.from_config(layer.get_config())
    assert again.has_own_gradient(training=True)
    assert not layer_class(3, activation=keras.ops.relu).has_own_gradient()


@pytest.fixture
def saved(monkeypatch):
    """Whether each scan was told to save its gates."""
    told = []
    scan = lstm_cell.lstm_scan

    def spy(*arguments, saves, **options):
        told.append(saves)
        return scan(*arguments, saves=saves, **options)

    monkeypatch.setattr(lstm_cell, "lstm_scan", spy)
    return told


def test_gates_are_saved_where_a_tape_can_record_and_nowhere_else(saved):
    layer = _built(LSTM(3))

    def gradient(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs))
        return tape.gradient(loss, inputs)

    inputs = tf.constant(INPUTS)
    tf.function(layer)(inputs)
    tf.function(lambda x: layer(x, training=False))(inputs)
    keras.Sequential([layer]).predict(INPUTS, verbose=0)
    assert saved == [False] * len(saved)
    saved.clear()

    tf.function(gradient)(inputs)
    gradient(inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        tf.function(lambda x: layer(x, training=False))(inputs)
    tf.function(lambda x: layer(x, training=True))(inputs)
    assert saved == [True] * 4
