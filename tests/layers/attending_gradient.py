"""What the tests of the gradients of `AttentionRNN` compare, by hand and by TensorFlow."""

import numpy as np
import tensorflow as tf


def values_and_gradients(rnn, run, tensors, masks):
    """All results, and the gradients of a random loss of them by all that there is.

    Args:
        rnn: the layer.
        run: its `_run_by_hand` or `_run_cell`.
        tensors: inputs, memory and the initial states.
        masks: of the steps and of the memory.
    """
    inputs, memory, *states = tensors
    watched = [*tensors, *(v.value for v in rnn.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs, alignments, states = run(inputs, memory, *masks, states, False)
        results = outputs, alignments, *states
        rng = np.random.default_rng(3)
        losses = [
            tf.reduce_sum(tf.cast(r, "float64") * rng.standard_normal(r.shape)) for r in results
        ]
    return results, tape.gradient(losses, watched)


def assert_equal(rnn, got, expected, tolerance):
    """Of two returned by `values_and_gradients`."""
    for a, b in zip(got[0], expected[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    paths = [v.path for v in rnn.trainable_variables]
    states = [f"initial state {n}" for n in range(len(got[1]) - len(paths) - 2)]
    names = ["inputs", "memory", *states, *paths]
    for name, a, b in zip(names, got[1], expected[1], strict=True):
        a, b = (np.asarray(tf.cast(x, "float64")) for x in (a, b))
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max(), rtol=0, err_msg=name)
