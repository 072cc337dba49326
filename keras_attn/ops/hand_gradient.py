"""Functions whose gradient is written by hand, because autodiff's is slow."""

import functools
from collections.abc import Callable

import tensorflow as tf

from keras_attn._upstream import is_being_saved
from keras_attn.ops.compilation import compiled

_NO_HIGHER_ORDERS = (
    "A reloaded SavedModel has first derivatives only. For a derivative of its gradients, load the "
    "`.keras` file with keras.models.load_model."
)


def with_gradient(
    forward: Callable,
    backward: Callable,
    setting: tuple = (),
    jit_compile: bool = False,
    saving_nothing: Callable | None = None,
) -> Callable:
    """A function that computes `forward` and is differentiated by `backward`.

    Derivatives of the gradient and derivatives forwards are exact too: they are autodiff's of
    `forward`, at its speed. A SavedModel keeps the gradient alone, and refuses what goes beyond it.

    Neither may read a tensor by closure, and neither a variable: all that they read is given, for
    TensorFlow may differentiate a gradient in a graph that sees nothing else.

    Args:
        forward: `forward(*setting, given) -> (outputs, saved)`, tuples of tensors; `saved` is what
            `backward` needs beside the outputs. Made of operations with gradients.
        backward: `backward(*setting, given, outputs, saved, output_gradients) -> gradients`, a nest
            like `given` whose entries for tensors that are not floating are ignored.
        setting: what the two are told beside tensors; hashable, so that equal functions are
            compiled once.
        jit_compile: whether XLA compiles the two, once for each new shape of what is given.
        saving_nothing: `saving_nothing(*setting, given) -> outputs`, the outputs of `forward` by a
            loop that keeps nothing for `backward`, which is faster; for calls of which no gradient
            is expected. One that is asked for all the same begins with `forward`.

    Returns:
        `function(given) -> outputs`, where `given` is a nest of tensors, with None for what is
        left out.
    """

    plain_forward = functools.partial(forward, *setting)
    bound = compiled if jit_compile else functools.partial
    run_forward, run_backward = bound(forward, *setting), bound(backward, *setting)
    if saving_nothing is None:
        run_first, run_again = run_forward, None
    else:
        run_outputs, run_again = bound(saving_nothing, *setting), run_forward
        run_first = lambda given: (run_outputs(given), ())  # noqa: E731

    def function(given):
        flat = tf.nest.flatten(given)

        def nest(tensors):
            present = iter(tensors)
            filled = [None if x is None else next(present) for x in flat]
            return tf.nest.pack_sequence_as(given, filled)

        def flat_backward(tensors, outputs, saved, output_gradients):
            given = nest(tensors)
            if run_again is not None:
                _, saved = run_again(given)
            gradients = tf.nest.flatten(run_backward(given, outputs, saved, output_gradients))
            present = [g for g, x in zip(gradients, flat, strict=True) if x is not None]
            return [g for g, x in zip(present, tensors, strict=True) if x.dtype.is_floating]

        function = _of_tensors(
            lambda *tensors: run_first(nest(tensors)),
            flat_backward,
            # XLA would compile a second derivative that is asked for once.
            lambda *tensors: plain_forward(nest(tensors)),
        )
        return function(*(x for x in flat if x is not None))

    return function


def _of_tensors(forward, backward, differentiable_forward):
    """`with_gradient` for functions of separate tensors; `backward` returns the floating ones'."""

    @tf.custom_gradient
    def function(*tensors):
        # Nothing in here is for a tape to record: the gradient is given.
        outputs, saved = forward(*map(tf.stop_gradient, tensors))
        # Nor what the gradient reads of it: a tape around a graph makes that outputs of the graph,
        # and would differentiate them.
        kept = tf.nest.map_structure(tf.stop_gradient, (outputs, saved))

        def last_gradient(*output_gradients):
            """The gradient in a SavedModel, whose own derivative is refused in words.

            TensorFlow saves the gradients of a model, but none of these gradients' own.
            """
            stopped = [tf.stop_gradient(x) for x in (*tensors, *output_gradients)]
            gradients = backward(stopped[: len(tensors)], *kept, stopped[len(tensors) :])
            gradients = [
                tf.raw_ops.PreventGradient(input=g, message=_NO_HIGHER_ORDERS) for g in gradients
            ]
            return _with_none(gradients, tensors)

        def gradient(*output_gradients):
            if is_being_saved():
                return last_gradient(*output_gradients)

            @tf.custom_gradient
            def first_order(*arguments):
                tensors, output_gradients = arguments[: -len(outputs)], arguments[-len(outputs) :]
                stopped = [tf.stop_gradient(x) for x in arguments]
                gradients = backward(stopped[: -len(outputs)], *kept, stopped[-len(outputs) :])
                return tuple(gradients), lambda *upstream: _second_order(
                    differentiable_forward, tensors, output_gradients, upstream
                )

            # The identities belong to the graph of this gradient, the tensors to the one before,
            # which the graph of the next does not see.
            gradients = first_order(*map(tf.identity, (*tensors, *output_gradients)))
            return _with_none(gradients, tensors)

        return outputs, gradient

    return function


def _second_order(forward, tensors, output_gradients, upstream):
    """Gradients of `forward`'s gradients for the tensors and the output gradients."""
    arguments = (*tensors, *output_gradients)
    derive = _derived_by_tapes
    if not _tapes_record():
        derive = tf.function(_derived_in_a_graph, autograph=False)
    return _with_none(derive(forward, len(tensors), arguments, upstream), arguments)


def _tapes_record() -> bool:
    """They do not, and do not say so, while TensorFlow derives forwards (`ForwardAccumulator`)."""
    one = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(one)
        same = tf.identity(one)
    return tape.gradient(same, one) is not None


def _derived_by_tapes(forward, size: int, arguments, upstream):
    floating = [x for x in arguments if x.dtype.is_floating]
    differentiated = floating[: len(upstream)]
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape() as outer:
        outer.watch(floating)
        with tf.GradientTape() as inner:
            inner.watch(differentiated)
            outputs, _ = forward(*arguments[:size])
        first = inner.gradient(
            outputs, differentiated, arguments[size:], unconnected_gradients=zero
        )
    return outer.gradient(first, floating, upstream, unconnected_gradients=zero)


def _derived_in_a_graph(forward, size: int, arguments, upstream):
    """The same without tapes, which takes seconds to trace, for every call."""
    floating = [x for x in arguments if x.dtype.is_floating]
    differentiated = floating[: len(upstream)]
    zero = tf.UnconnectedGradients.ZERO
    outputs, _ = forward(*arguments[:size])
    first = tf.gradients(
        outputs, differentiated, list(arguments[size:]), unconnected_gradients=zero
    )
    return tf.gradients(first, floating, list(upstream), unconnected_gradients=zero)


def _with_none(gradients, tensors) -> list:
    """The gradients of the floating tensors, with None for the others."""
    of_floating = iter(gradients)
    return [next(of_floating) if x.dtype.is_floating else None for x in tensors]
