import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops.layer_normalization import layer_normalization


def _plain(x, gamma, beta):
    # Not by tf.nn.moments, whose second derivatives leave out how the mean moves.
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(centred**2, -1, keepdims=True)
    return gamma * centred / tf.sqrt(variance + 1e-6) + beta


@pytest.fixture
def arguments():
    generator = np.random.default_rng(0)
    x = 3 + 2 * generator.normal(size=(2, 3, 5))
    return [tf.constant(each) for each in (x, generator.normal(size=5), generator.normal(size=5))]


def _value_and_gradients(function, arguments):
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        y = function(*arguments)
        total = tf.reduce_sum(y * tf.cos(y))
    return [y, *tape.gradient(total, arguments)]


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradients_are_autodiffs(arguments, mode, dtype):
    arguments = [tf.cast(each, dtype) for each in arguments]
    run = _value_and_gradients
    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla")
    expected = _value_and_gradients(_plain, arguments)
    for got, want in zip(run(layer_normalization, arguments), expected, strict=True):
        tolerance = 1e-4 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_second_derivatives_are_autodiffs(arguments):
    results = []
    for function in (layer_normalization, _plain):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            _, *gradients = _value_and_gradients(function, arguments)
            total = sum(tf.reduce_sum(tf.sin(gradient)) for gradient in gradients)
        results.append(tape.gradient(total, arguments))
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


def test_it_is_keras_layer_normalization(arguments):
    x, gamma, beta = (tf.cast(each, tf.float32) for each in arguments)
    layer = keras.layers.LayerNormalization(epsilon=1e-6)
    layer.build(x.shape)
    layer.set_weights([gamma, beta])
    np.testing.assert_allclose(layer_normalization(x, gamma, beta), layer(x), atol=1e-5)


def test_bfloat16_is_computed_in_float32(arguments):
    x, gamma, beta = (tf.cast(each, tf.bfloat16) for each in arguments)
    y = layer_normalization(x, gamma, beta)
    assert y.dtype == tf.bfloat16
    expected = _plain(*(tf.cast(each, tf.float32) for each in (x, gamma, beta)))
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5), (1, 5)], ids=str)
def test_empty_inputs_have_empty_outputs_and_zero_gradients(arguments, shape):
    x = tf.zeros(shape, tf.float64)
    y, dx, dgamma, dbeta = _value_and_gradients(layer_normalization, [x, *arguments[1:]])
    assert y.shape == dx.shape == shape
    if 0 in shape:
        np.testing.assert_array_equal(dgamma, 0)
        np.testing.assert_array_equal(dbeta, 0)
