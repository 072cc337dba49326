"""Every activation of the feed-forward network: plain, gated, Keras' own and the user's."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import FeedForward, TransformerDecoderBlock, TransformerEncoderBlock

X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype("float32")


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


GATES = {
    "glu": _sigmoid,
    "bilinear": lambda x: x,
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": lambda x: x * (1 + tf.math.erf(x / np.sqrt(2)).numpy()) / 2,
    "swiglu": lambda x: x * _sigmoid(x),
}


@keras.saving.register_keras_serializable(package="test_feed_forward")
def squared_relu(x):
    return keras.ops.square(keras.ops.relu(x))


def _moved(layer):
    layer(X)
    rng = np.random.default_rng(5)
    layer.set_weights([w + 0.3 * rng.standard_normal(w.shape) for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize("name", GATES)
def test_gated_activations_are_those_of_shazeer(name):
    layer = _moved(FeedForward(6, name))
    w1, b1, w3, b3, w2, b2 = layer.get_weights()
    expected = (GATES[name](X @ w1 + b1) * (X @ w3 + b3)) @ w2 + b2
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)


@pytest.mark.parametrize("activation", [
    "tanh", "silu", "leaky_relu", "linear", "softmax", None, keras.activations.mish, tf.nn.relu,
    squared_relu, keras.layers.LeakyReLU(0.2),
], ids=lambda each: getattr(each, "__name__", str(each)))  # fmt: skip
def test_plain_activations_are_those_of_keras(activation):
    layer = _moved(FeedForward(6, activation))
    w1, b1, w2, b2 = layer.get_weights()
    function = keras.activations.get(activation)
    expected = function(tf.constant(X @ w1 + b1)).numpy() @ w2 + b2
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)


@pytest.mark.parametrize("activation", [
    "geglu", "tanh", None, squared_relu, keras.activations.mish, keras.activations.glu,
    keras.layers.LeakyReLU(0.2),
], ids=lambda each: getattr(each, "__name__", str(each)))  # fmt: skip
@pytest.mark.parametrize("kind", ["layer", "encoder", "decoder"])
def test_an_activation_comes_back_from_the_config(activation, kind):
    make = {
        "layer": lambda: FeedForward(6, activation),
        "encoder": lambda: TransformerEncoderBlock(2, 6, activation=activation),
        "decoder": lambda: TransformerDecoderBlock(2, 6, activation=activation),
    }[kind]
    layer = _moved(make())
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    copy = keras.saving.deserialize_keras_object(config)
    copy(X)
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(X), layer(X))


def test_a_layer_with_weights_is_an_activation_too(tmp_path):
    inputs = keras.Input((3, 4))
    outputs = FeedForward(6, keras.layers.PReLU(shared_axes=[1]))(inputs)
    model = keras.Model(inputs, outputs)
    assert len(model.weights) == 5
    model.set_weights([w + 0.3 for w in model.get_weights()])
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(X), model(X))


def test_keras_glu_is_the_gate_with_a_hidden_layer_of_its_own():
    layer = _moved(FeedForward(6, keras.activations.glu))
    same = FeedForward(6, "glu")
    same(X)
    same.set_weights(layer.get_weights())
    np.testing.assert_array_equal(layer(X), same(X))


def test_a_lambda_is_warned_of_where_it_is_saved():
    layer = FeedForward(6, lambda x: x)
    with pytest.warns(UserWarning, match="lambda"):
        layer.get_config()


@pytest.mark.parametrize("activation", ["tangent", 3, ["relu"]])
def test_an_unknown_activation_is_refused_with_the_gated_ones_named(activation):
    with pytest.raises(ValueError, match=r"'swiglu'.*Received: activation="):
        FeedForward(6, activation)


def test_gate_and_hidden_layer_begin_with_numbers_of_their_own():
    """An initializer that was shared would give both the same kernel."""
    layer = FeedForward(8, "swiglu", kernel_initializer=keras.initializers.GlorotUniform())
    layer.build((None, None, 4))
    gate, hidden = layer._gate_dense.kernel, layer._hidden_dense.kernel
    assert gate.shape == hidden.shape
    assert not np.allclose(gate, hidden)
