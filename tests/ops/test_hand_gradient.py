import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops.hand_gradient import with_gradient

CALLS = []


def _power(*, factor):
    """factor x^3 y with a gradient by hand that can be told from autodiff's by what it records."""

    def forward(x, y):
        square = x * x
        return (factor * square * x * y,), (square,)

    def backward(tensors, outputs, saved, output_gradients):
        CALLS.append("by hand")
        x, y = tensors
        (square,), (d,) = saved, output_gradients
        return d * factor * 3 * square * y, d * factor * square * x

    return lambda x, y: with_gradient(forward, backward)(x, y)[0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "called-under-a-tape", "xla"])
def test_first_and_second_derivatives_are_exact(mode, persistent):
    function = _power(factor=2.0)
    if mode == "called-under-a-tape":
        function = tf.function(function)

    def derivatives(x, y):
        with tf.GradientTape(persistent=persistent) as outer:
            outer.watch([x, y])
            with tf.GradientTape() as inner:
                inner.watch([x, y])
                value = function(x, y)
            first = inner.gradient(value, [x, y])
        return [*first, *outer.gradient(first[0], [x, y])]

    if mode in ("graph", "xla"):
        derivatives = tf.function(derivatives, jit_compile=mode == "xla")
    CALLS.clear()
    got = derivatives(tf.constant(3.0), tf.constant(5.0))
    np.testing.assert_allclose(got, [2 * 3 * 9 * 5, 2 * 27, 2 * 6 * 3 * 5, 2 * 3 * 9], rtol=1e-6)
    assert CALLS
