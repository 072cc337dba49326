"""`lstm_scan` and `gru_scan` against `scan` over the plain steps, differentiated by TensorFlow."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import (
    LSTMForm,
    gru_scan,
    gru_step,
    gru_step_reset_after,
    lstm_scan,
    lstm_step,
    project,
    scan,
)
from keras_attn.ops.chunks import CHUNK
from keras_attn.ops.recurrent import LSTM_BLOCKS

BATCH, STEPS, INPUT, UNITS = 3, CHUNK + 2, 4, 5
MASK = np.random.default_rng(0).random((BATCH, STEPS)) < 0.6
MASK[2] = False
LSTM_FORMS = [
    LSTMForm(peepholes, sees, variant)
    for variant, (peepholes, sees) in itertools.product(
        LSTM_BLOCKS,
        [(None, "new"), *itertools.product(("diagonal", "full"), ("new", "previous"))],
    )
    if not (variant == "NOG" and sees == "previous")
]
GRU_FORMS = list(itertools.product((False, True), (False, True)))  # reset_after, biases
RUNS = {"forwards": (None, False), "backwards-masked": (MASK, True)}
all_runs = pytest.mark.parametrize(("mask", "reverse"), RUNS.values(), ids=RUNS)


def _random(shape, seed, dtype="float64", scale=0.7):
    return tf.constant(scale * np.random.default_rng(seed).standard_normal(shape), dtype)


class _LSTM:
    """One form of LSTM, by hand and plain."""

    def __init__(self, form, use_bias=True):
        self.form = form
        self.states = [UNITS, UNITS] + ([3 * UNITS] if form.variant == "FGR" else [])
        width, gates = len(form.blocks) * UNITS, len(form.gates)
        self.shapes = {"kernel": (INPUT, width), "recurrent_kernel": (UNITS, width)}
        if use_bias:
            self.shapes["bias"] = (width,)
        if form.peepholes:
            diagonal = form.peepholes == "diagonal"
            self.shapes["peephole_kernel"] = (gates, UNITS) if diagonal else (UNITS, gates * UNITS)
        if form.variant == "FGR":
            self.shapes["gate_recurrent_kernel"] = (3 * UNITS, 3 * UNITS)

    def by_hand(self, inputs, states, weights, **options):
        return lstm_scan(inputs, states, form=self.form, **weights, **options)

    def plain(self, inputs, states, weights, mask=None, reverse=False):
        weights = dict(weights)
        projected = project(inputs, weights.pop("kernel"), weights.pop("bias", None))

        def step(x, states):
            states = lstm_step(x, states, form=self.form, **weights)
            return states[0], states

        return scan(step, projected, states, mask, reverse, initial_outputs=states[0])


class _GRU:
    """One form of GRU, by hand and plain."""

    def __init__(self, reset_after, use_bias=True):
        self.reset_after = reset_after
        self.states = [UNITS]
        self.shapes = {"kernel": (INPUT, 3 * UNITS), "recurrent_kernel": (UNITS, 3 * UNITS)}
        if use_bias:
            self.shapes["bias"] = (3 * UNITS,)
            if reset_after:
                self.shapes["recurrent_bias"] = (3 * UNITS,)

    def by_hand(self, inputs, states, weights, **options):
        outputs, state = gru_scan(
            inputs, states[0], reset_after=self.reset_after, **weights, **options
        )
        return outputs, [state]

    def plain(self, inputs, states, weights, mask=None, reverse=False):
        weights = dict(weights)
        projected = project(inputs, weights.pop("kernel"), weights.pop("bias", None))
        gru = gru_step_reset_after if self.reset_after else gru_step

        def step(x, states):
            hidden = gru(x, states[0], **weights)
            return hidden, [hidden]

        return scan(step, projected, states, mask, reverse, initial_outputs=states[0])


def _tensors(unit, dtype="float64", batch=BATCH, steps=STEPS):
    inputs = _random((batch, steps, INPUT), 1, dtype)
    states = [_random((batch, size), 2 + n, dtype) for n, size in enumerate(unit.states)]
    weights = {
        name: _random(shape, 9 + n, dtype) for n, (name, shape) in enumerate(unit.shapes.items())
    }
    return inputs, states, weights


def _run(function, tensors, **options):
    """Results, and the gradients of a random loss of all of them by all tensors; flat."""
    flat = tf.nest.flatten(tensors)
    with tf.GradientTape() as tape:
        tape.watch(flat)
        results = tf.nest.flatten(function(*tensors, **options))
        losses = [tf.reduce_sum(r * _random(r.shape, 30, r.dtype)) for r in results]
    return results + tape.gradient(losses, flat)


def _assert_equal(got, expected, tolerance):
    for n, (a, b) in enumerate(zip(got, expected, strict=True)):
        a, b = np.asarray(tf.cast(a, "float64")), np.asarray(tf.cast(b, "float64"))
        largest = max(np.abs(b).max(initial=0), 1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest, err_msg=f"tensor {n}")


# In float64 an error of the algebra cannot hide behind rounding.
@all_runs
@pytest.mark.parametrize("form", LSTM_FORMS, ids=lambda form: "-".join(map(str, form)))
def test_lstm_gradients_are_those_of_the_plain_step(form, mask, reverse):
    lstm = _LSTM(form)
    tensors, options = _tensors(lstm), {"mask": mask, "reverse": reverse}
    _assert_equal(
        _run(lstm.by_hand, tensors, **options), _run(lstm.plain, tensors, **options), 1e-11
    )


@all_runs
@pytest.mark.parametrize(("reset_after", "use_bias"), GRU_FORMS)
def test_gru_gradients_are_those_of_the_plain_step(reset_after, use_bias, mask, reverse):
    gru = _GRU(reset_after, use_bias)
    tensors, options = _tensors(gru), {"mask": mask, "reverse": reverse}
    _assert_equal(_run(gru.by_hand, tensors, **options), _run(gru.plain, tensors, **options), 1e-11)


def test_an_lstm_needs_no_bias():
    lstm = _LSTM(LSTMForm(), use_bias=False)
    tensors = _tensors(lstm)
    _assert_equal(_run(lstm.by_hand, tensors), _run(lstm.plain, tensors), 1e-11)


UNITS_TO_TRY = {
    "lstm": _LSTM(LSTMForm()),
    "peephole": _LSTM(LSTMForm("diagonal")),
    "full": _LSTM(LSTMForm("full", "previous")),
    "fgr": _LSTM(LSTMForm("diagonal", "new", "FGR")),
    "gru": _GRU(False),
    "gru-reset-after": _GRU(True),
}
some_units = pytest.mark.parametrize("unit", UNITS_TO_TRY.values(), ids=UNITS_TO_TRY)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["full"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
@pytest.mark.parametrize("steps", [CHUNK - 1, CHUNK, 2 * CHUNK + 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_length_is_cut_into_the_right_chunks(unit, steps, reverse):
    inputs, states, weights = _tensors(unit, steps=steps)
    got = tf.function(lambda *t: _run(unit.by_hand, t, reverse=reverse))(inputs, states, weights)
    _assert_equal(got, _run(unit.plain, (inputs, states, weights), reverse=reverse), 1e-11)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["fgr"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
@pytest.mark.parametrize(
    ("mode", "masked"),
    [("graph", True), ("unknown", True), ("unknown", False), ("xla", False), ("xla-unknown", True)],
)
def test_eager_graph_and_xla_agree_for_all_sizes(unit, mode, masked):
    traces = []

    def run(inputs, states, weights, mask):
        traces.append(1)
        flat = tf.nest.flatten((inputs, states, weights))
        with tf.GradientTape() as tape:
            tape.watch(flat)
            outputs, last = unit.by_hand(inputs, states, weights, mask=mask if masked else None)
            loss = tf.reduce_sum(outputs**2) + tf.add_n([tf.reduce_sum(s**3) for s in last])
        return [outputs, *last, *tape.gradient(loss, flat)]

    tensors = _tensors(unit)
    signature = None
    if "unknown" in mode:
        signature = [
            tf.TensorSpec([None, None, INPUT], "float64"),
            [tf.TensorSpec([None, size], "float64") for size in unit.states],
            tf.nest.map_structure(lambda w: tf.TensorSpec(w.shape, w.dtype), tensors[2]),
            tf.TensorSpec([None, None], "bool"),
        ]
    compiled = tf.function(run, input_signature=signature, jit_compile="xla" in mode)
    all_sizes = [(BATCH, STEPS), (0, 3), (2, 0), (2, 1)]
    # XLA cannot compile the body of a loop over what it sees to be nothing.
    for batch, steps in all_sizes[:2] if mode == "xla-unknown" else all_sizes:
        inputs, states, weights = _tensors(unit, batch=batch, steps=steps)
        mask = tf.constant(MASK[:batch, :steps])
        got = compiled(inputs, states, weights, mask)
        expected = run(inputs, states, weights, mask)
        for a, b in zip(got, expected, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
        assert got[0].shape == (batch, steps, UNITS)
        if steps == 0:
            np.testing.assert_array_equal(got[1], states[0])
    if mode == "unknown":
        assert len(traces) == 1 + len(all_sizes)


@some_units
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 6e-2)])
def test_lower_precision_stays_close_to_float64(unit, dtype, tolerance):
    tensors = _tensors(unit, dtype)
    got = _run(unit.by_hand, tensors, mask=MASK)
    assert {x.dtype.name for x in got} == {dtype}
    exact = tf.nest.map_structure(lambda x: tf.cast(x, "float64"), tensors)
    _assert_equal(got, _run(unit.by_hand, exact, mask=MASK), tolerance)


@pytest.mark.parametrize("unit", [_LSTM(LSTMForm("diagonal")), _GRU(False)], ids=["lstm", "gru"])
def test_second_derivatives_are_exact(unit):
    inputs, states, weights = _tensors(unit, steps=3)
    weight = weights["recurrent_kernel"]

    def of_penalty(function):
        with tf.GradientTape() as outer:
            outer.watch([inputs, weight])
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                outputs, _ = function(inputs, states, weights, mask=MASK[:, :3])
                loss = tf.reduce_sum(outputs**2)
            penalty = tf.reduce_sum(inner.gradient(loss, inputs) ** 2)
        return outer.gradient(penalty, [inputs, weight])

    expected = of_penalty(unit.plain)
    for run in (of_penalty, tf.function(of_penalty)):
        _assert_equal(run(unit.by_hand), expected, 1e-9)


def _compiled_operations(unit, graph_shape, **options):
    """Whether XLA compiles a part of the graph of a scan."""
    _, states, weights = _tensors(unit, "float32")
    inputs = tf.TensorSpec(graph_shape, options.pop("dtype", "float32"))
    function = tf.function(lambda x: unit.by_hand(x, states, weights, **options))
    graph = function.get_concrete_function(inputs).graph
    compiled = [f for f in graph.as_graph_def().library.function if "_XlaMustCompile" in f.attr]
    return any(f.attr["_XlaMustCompile"].b for f in compiled)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["lstm"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
def test_xla_compiles_what_has_known_sizes_and_what_it_is_told_to(unit):
    known = (BATCH, STEPS, INPUT)
    assert _compiled_operations(unit, known)
    assert not _compiled_operations(unit, (BATCH, None, INPUT))
    assert not _compiled_operations(unit, (None, STEPS, INPUT))
    assert not _compiled_operations(unit, (BATCH, 0, INPUT))
    assert not _compiled_operations(unit, known, jit_compile=False)
    assert _compiled_operations(unit, (BATCH, None, INPUT), jit_compile=True)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["fgr"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
def test_compiling_changes_nothing(unit):
    tensors = _tensors(unit)
    expected = _run(unit.by_hand, tensors, mask=MASK, jit_compile=False)
    _assert_equal(_run(unit.by_hand, tensors, mask=MASK, jit_compile=True), expected, 1e-11)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["fgr"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
def test_a_compiled_scan_that_saves_nothing_has_the_same_gradients(unit, in_graph):
    tensors = _tensors(unit)
    expected = _run(unit.by_hand, tensors, mask=MASK, jit_compile=True)

    def run():
        return _run(unit.by_hand, tensors, mask=MASK, jit_compile=True, saves=False)

    _assert_equal(tf.function(run)() if in_graph else run(), expected, 1e-11)


@pytest.mark.parametrize("unit", [UNITS_TO_TRY["lstm"], UNITS_TO_TRY["gru"]], ids=["lstm", "gru"])
def test_a_compiled_scan_that_saves_nothing_returns_states_alone(unit):
    _, states, weights = _tensors(unit, "float32")

    def number_of_values(saves):
        inputs = tf.TensorSpec((BATCH, STEPS, INPUT), "float32")
        function = tf.function(lambda x: unit.by_hand(x, states, weights, saves=saves))
        library = function.get_concrete_function(inputs).graph.as_graph_def().library
        (compiled,) = (f for f in library.function if f.attr["_XlaMustCompile"].b)
        return len(compiled.signature.output_arg)

    assert number_of_values(saves=False) == 1 + len(states) < number_of_values(saves=True)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"jit_compile": "yes"}, "jit_compile='yes'"),
        ({"mask": MASK.astype("float32")}, "mask.dtype="),
        ({"mask": MASK[..., None]}, "mask.shape="),
        ({"peephole_kernel": tf.ones([3, UNITS])}, "form=.*peephole_kernel given"),
        ({"form": LSTMForm("diagonal")}, "form=.*peephole_kernel missing"),
        ({"gate_recurrent_kernel": tf.ones([3, 3])}, "form=.*gate_recurrent_kernel given"),
    ],
)
def test_what_an_lstm_cannot_use_is_refused(options, received):
    inputs, states, weights = _tensors(_LSTM(LSTMForm()))
    with pytest.raises(ValueError, match=f"Received: {received}"):
        lstm_scan(inputs, states, **{**weights, **options})


def test_a_gru_that_resets_before_the_product_has_no_recurrent_bias():
    inputs, states, weights = _tensors(_GRU(False))
    with pytest.raises(ValueError, match="Received: recurrent_bias"):
        gru_scan(inputs, states[0], **weights, recurrent_bias=tf.ones([3 * UNITS]))
