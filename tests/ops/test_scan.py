"""The loop over time: nests, masks, direction, unknown sizes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import scan

rng = np.random.default_rng(0)
A = rng.standard_normal((2, 4, 3)).astype("float32")
B = rng.standard_normal((2, 4, 2)).astype("float32")
MASK = np.array([[False, True, False, True], [True, True, True, False]])


def _step(inputs, states):
    h = 0.5 * states["h"] + inputs["a"]
    return {"twice": 2 * h, "seen": (inputs["b"],)}, {"h": h, "count": states["count"] + 1}


def _run(a, b, mask=None, **options):
    batch = tf.shape(a)[0]
    initial = {"h": tf.ones([batch, 3]), "count": tf.zeros([batch], tf.int32)}
    return scan(_step, {"a": a, "b": b}, initial, mask, **options)


def _by_hand(a, b, mask, reverse):
    """The same in NumPy, one sequence and step after the other."""
    batch, length = a.shape[:2]
    twice, seen = np.zeros_like(a), np.zeros_like(b)
    h, count = np.ones((batch, 3), "float32"), np.zeros(batch, "int32")
    for n in range(batch):
        last = np.zeros(3), np.zeros(2)
        for t in range(length)[:: -1 if reverse else 1]:
            if mask is None or mask[n, t]:
                h[n] = 0.5 * h[n] + a[n, t]
                count[n] += 1
                last = 2 * h[n], b[n, t]
            twice[n, t], seen[n, t] = last
    return {"twice": twice, "seen": (seen,)}, {"h": h, "count": count}


def _assert_equal(got, expected):
    tf.nest.assert_same_structure(got, expected)
    for g, e in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(g, e, atol=1e-6)


def _compiled(run, mode, signature):
    """`run` as it is, or in a graph, with unknown sizes or under XLA."""
    if mode == "eager":
        return run
    signature = signature if mode == "unknown" else None
    return tf.function(run, jit_compile=mode == "xla", input_signature=signature, autograph=False)


UNKNOWN = [tf.TensorSpec([None, None, 3]), tf.TensorSpec([None, None, 2])]
UNKNOWN_MASK = tf.TensorSpec([None, None], tf.bool)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mode", ["eager", "graph", "unknown", "xla", "unroll"])
def test_equals_the_steps_by_hand(mode, masked, reverse):
    options = {"reverse": reverse, "unroll": mode == "unroll"}
    signature = [*UNKNOWN, UNKNOWN_MASK] if masked else UNKNOWN
    run = _compiled(lambda *tensors: _run(*tensors, **options), mode, signature)
    mask = MASK if masked else None
    tensors = [tf.constant(x) for x in (A, B, mask) if x is not None]
    _assert_equal(run(*tensors), _by_hand(A, B, mask, reverse))


@pytest.mark.parametrize(("batch", "length"), [(0, 4), (2, 1), (2, 0), (0, 0)])
@pytest.mark.parametrize("mode", ["eager", "graph", "unknown", "xla"])
def test_empty_and_single(mode, batch, length):
    a, b, mask = A[:batch, :length], B[:batch, :length], MASK[:batch, :length]
    run = _compiled(_run, mode, [*UNKNOWN, UNKNOWN_MASK])
    got = run(tf.constant(a), tf.constant(b), tf.constant(mask))
    _assert_equal(got, _by_hand(a, b, mask, reverse=False))


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_gradients_reach_inputs_states_and_closures_and_skip_masked_steps(mode):
    def gradients(x, start, weight):
        with tf.GradientTape() as tape:
            tape.watch([x, start, weight])
            _, end = scan(lambda x, h: ((), weight * h + x), x, start, mask=MASK)
            loss = tf.reduce_sum(end)
        return tape.gradient(loss, [x, start, weight])

    gradients = _compiled(gradients, mode, None)
    x, start, weight = tf.ones([2, 4, 1]), tf.ones([2, 1]), tf.constant(0.5)
    of_x, of_start, of_weight = gradients(x, start, weight)
    np.testing.assert_allclose(of_x[..., 0], [[0, 0.5, 0, 1], [0.25, 0.5, 1, 0]])
    np.testing.assert_allclose(of_start[:, 0], [0.25, 0.125])
    # h = w^2 + w + 1 after two steps, w^3 + w^2 + w + 1 after three.
    np.testing.assert_allclose(of_weight, (2 * 0.5 + 1) + (3 * 0.25 + 2 * 0.5 + 1))


def test_outputs_before_the_first_step_are_the_initial_outputs():
    first = np.full((2, 3), 7, "float32")
    outputs, _ = scan(
        lambda x, h: (x + h, x + h), A, tf.zeros([2, 3]), mask=MASK, initial_outputs=first
    )
    np.testing.assert_array_equal(outputs[0, 0], first[0])
    np.testing.assert_allclose(outputs[0, 1], A[0, 1])


def test_time_major_is_the_transpose():
    swap = lambda x: np.swapaxes(x, 0, 1)  # noqa: E731
    initial = {"h": tf.ones([2, 3]), "count": tf.zeros([2], tf.int32)}
    inputs = {"a": swap(A), "b": swap(B)}
    outputs, end = scan(_step, inputs, initial, swap(MASK), time_major=True)
    outputs = tf.nest.map_structure(lambda x: swap(x.numpy()), outputs)
    _assert_equal((outputs, end), _by_hand(A, B, MASK, reverse=False))


def test_static_sizes_survive_the_loop():
    @tf.function
    def run(a, b):
        outputs, states = _run(a, b)
        assert outputs["twice"].shape.as_list() == [2, 4, 3]
        assert states["h"].shape.as_list()[1:] == [3]
        return states

    run(A, B)


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"inputs": ()}, "inputs="),
        ({"mask": MASK.astype("float32")}, "mask.dtype="),
        ({"mask": MASK[..., None]}, "mask.shape="),
        ({"step": lambda x, h: (x, (h, h))}, "states="),
        ({"step": lambda x, h: (x, tf.cast(h, "float64"))}, "states="),
        ({"step": lambda x, h: (x, h[:, :2])}, "states="),
    ],
)
def test_bad_arguments_are_refused(arguments, received):
    good = {"step": lambda x, h: (x, h), "inputs": A, "initial_states": tf.zeros([2, 3])}
    with pytest.raises(ValueError, match=f"Received: {received}"):
        scan(**{**good, **arguments})


def test_unrolling_an_unknown_length_is_refused():
    run = _compiled(lambda a, b: _run(a, b, unroll=True), "unknown", UNKNOWN)
    with pytest.raises(ValueError, match="Received: unroll=True"):
        run(A, B)
