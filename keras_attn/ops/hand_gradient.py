"""Functions whose gradient is written by hand, because autodiff's is slow."""

from collections.abc import Callable

import tensorflow as tf


def with_gradient(forward: Callable, backward: Callable) -> Callable:
    """A function of tensors that computes `forward` and is differentiated by `backward`.

    Derivatives of the gradient are exact too: they are autodiff's of `forward`, at its speed.

    Args:
        forward: `forward(*tensors) -> (outputs, saved)`, tuples of tensors; `saved` is what
            `backward` needs beside the outputs. Made of operations with gradients, without
            variables. Masks and the like reach it by closure.
        backward: `backward(tensors, outputs, saved, output_gradients) -> gradients`, one for each
            of the tensors.

    Returns:
        `function(*tensors) -> outputs`.
    """

    @tf.custom_gradient
    def function(*tensors):
        outputs, saved = forward(*tensors)

        def gradient(*output_gradients):
            @tf.custom_gradient
            def first_order(*arguments):
                tensors, output_gradients = arguments[: -len(outputs)], arguments[-len(outputs) :]
                gradients = backward(tensors, outputs, saved, output_gradients)
                return tuple(gradients), lambda *upstream: _second_order(
                    forward, tensors, output_gradients, upstream
                )

            return first_order(*tensors, *output_gradients)

        return outputs, gradient

    return function


def _second_order(forward, tensors, output_gradients, upstream):
    """Gradients of `forward`'s gradients with respect to the tensors and the output gradients."""
    arguments = [*tensors, *output_gradients]
    with tf.GradientTape() as outer:
        outer.watch(arguments)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            outputs, _ = forward(*tensors)
        zero = tf.UnconnectedGradients.ZERO
        gradients = inner.gradient(outputs, tensors, output_gradients, unconnected_gradients=zero)
    return outer.gradient(gradients, arguments, upstream, unconnected_gradients=zero)
