import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import GRU
from keras_attn.ops.hand_gradient import with_gradient

CALLS = []


def _power(x, y, positive):
    """2 x^3 y, or its negative, with a gradient by hand that leaves a record."""

    def forward(given):
        square = given["x"] * given["x"]
        value = 2 * square * given["x"] * given["y"]
        return (tf.where(given["positive"], value, -value),), (square,)

    def backward(given, outputs, saved, output_gradients):
        CALLS.append("by hand")
        (square,), (d,) = saved, output_gradients
        d = tf.where(given["positive"], d, -d)
        of_x, of_y = d * 6 * square * given["y"], d * 2 * square * given["x"]
        return {"x": of_x, "y": of_y, "positive": None, "left out": None}

    given = {"x": x, "y": y, "positive": positive, "left out": None}
    return with_gradient(forward, backward)(given)[0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "called-under-a-tape", "xla"])
def test_first_and_second_derivatives_are_exact(mode, persistent):
    positive, function = tf.constant(True), _power
    if mode == "called-under-a-tape":
        function = tf.function(_power)

    def derivatives(x, y):
        with tf.GradientTape(persistent=persistent) as outer:
            outer.watch([x, y])
            with tf.GradientTape() as inner:
                inner.watch([x, y])
                value = function(x, y, positive)
            first = inner.gradient(value, [x, y])
        return [*first, *outer.gradient(first[0], [x, y])]

    if mode in ("graph", "xla"):
        derivatives = tf.function(derivatives, jit_compile=mode == "xla")
    CALLS.clear()
    got = derivatives(tf.constant(3.0), tf.constant(5.0))
    np.testing.assert_allclose(got, [2 * 3 * 9 * 5, 2 * 27, 2 * 6 * 3 * 5, 2 * 3 * 9], rtol=1e-6)
    assert CALLS


@pytest.mark.parametrize("called_as", ["eager", "graph"])
def test_derivatives_forwards_are_exact_and_not_silently_zero(called_as):
    positive, x, y = tf.constant(True), tf.constant(3.0), tf.constant(5.0)
    function = tf.function(_power) if called_as == "graph" else _power
    with tf.autodiff.ForwardAccumulator([x, y], [tf.constant(1.0), tf.constant(10.0)]) as forwards:
        value = function(x, y, positive)
    np.testing.assert_allclose(forwards.jvp(value), 2 * 3 * 9 * 5 + 10 * 2 * 27, rtol=1e-6)


def test_derivatives_forwards_over_backwards_are_exact():
    positive, x, y = tf.constant(True), tf.constant(3.0), tf.constant(5.0)
    with tf.autodiff.ForwardAccumulator([x, y], [tf.constant(1.0), tf.constant(10.0)]) as forwards:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = _power(x, y, positive)
        by_x = tape.gradient(value, x)  # 6 x^2 y
    np.testing.assert_allclose(forwards.jvp(by_x), 12 * 3 * 5 + 10 * 6 * 9, rtol=1e-6)


def test_a_reloaded_savedmodel_has_first_derivatives_and_refuses_second_ones(tmp_path):
    inputs = keras.Input((12, 3))
    model = keras.Model(inputs, GRU(2)(inputs))
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    reloaded = loaded.serve
    x = tf.random.stateless_normal([2, 12, 3], [1, 2])

    def gradient(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(function(x) ** 2)
        return tape.gradient(loss, x)

    np.testing.assert_allclose(gradient(reloaded), gradient(model), atol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(LookupError, match="A reloaded SavedModel has first derivatives only"):
            gradient(reloaded)
