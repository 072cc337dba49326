"""The gradient of `AttentionRNN` by hand against that of the plain cell, by TensorFlow."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from attending_gradient import assert_equal, values_and_gradients

from keras_attn.layers import (
    AdditiveAttention,
    AttentionRNN,
    GRUCell,
    LSTMCell,
    LuongAttention,
    PeepholeLSTMCell,
)

BATCH, STEPS, SOURCE, INPUT, MEMORY, UNITS = 3, 4, 5, 2, 6, 7
MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
FORMS = {
    "cho": {},
    "reset-after": {"reset_after": True},
    "no-bias": {"use_bias": False},
    "reset-after-no-bias": {"reset_after": True, "use_bias": False},
}
ATTENTIONS = {
    "plain": {},
    "bias": {"use_bias": True},
    "normalised": {"normalize": True},
    "general": {"score": "general"},
    "scaled": {"score": "scaled"},
    "dot": {"score": "dot"},
}
MASKS = {
    "unmasked": (None, None),
    "steps": (MASK, None),
    "memory": (None, MEMORY_MASK),
    "both": (MASK, MEMORY_MASK),
}


def _rnn(cell=None, attention=None, dtype="float64"):
    attention = attention or {}
    if "score" in attention:
        attention = LuongAttention(**attention, dtype=dtype)
    else:
        attention = AdditiveAttention(4, **attention, dtype=dtype)
    # The dot product is of a memory as wide as the state.
    units = MEMORY if getattr(attention, "score", None) == "dot" else UNITS
    rnn = AttentionRNN(GRUCell(units, dtype=dtype, **(cell or {})), attention, dtype=dtype)
    rnn.build((BATCH, STEPS, INPUT), (BATCH, SOURCE, MEMORY))
    rng = np.random.default_rng(1)
    rnn.set_weights([0.7 * rng.standard_normal(w.shape) for w in rnn.get_weights()])
    return rnn


def _tensors(dtype="float64", batch=BATCH, steps=STEPS, source=SOURCE, units=UNITS):
    rng = np.random.default_rng(2)
    shapes = (batch, steps, INPUT), (batch, source, MEMORY), (batch, units)
    return [tf.constant(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("cell", FORMS.values(), ids=FORMS)
def test_gradients_are_those_of_the_plain_cell(cell, attention, masks):
    rnn = _rnn(cell, attention)
    assert rnn.has_own_gradient()
    tensors = _tensors(units=rnn.cell.cell.units)
    by_hand = values_and_gradients(rnn, rnn._run_by_hand, tensors, masks)
    plain = values_and_gradients(rnn, rnn._run_cell, tensors, masks)
    # In float64 an error of the algebra cannot hide behind rounding.
    assert_equal(rnn, by_hand, plain, 1e-11)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 6e-2), ("mixed_bfloat16", 6e-2)]
)
@pytest.mark.parametrize("attention", ["normalised", "general"])
@pytest.mark.parametrize("cell", [FORMS["cho"], FORMS["reset-after"]], ids=["cho", "reset-after"])
def test_lower_precision_stays_close_to_float64(cell, attention, dtype, tolerance):
    compute = "float32" if dtype == "float32" else "bfloat16"
    attention = ATTENTIONS[attention]
    rnn, exact = _rnn(cell, attention, dtype), _rnn(cell, attention)
    # Small weights, for where a softmax is nearly one hot bfloat16 decides at random.
    rnn.set_weights([0.5 * np.asarray(w, "float64") for w in rnn.get_weights()])
    exact.set_weights([np.asarray(w, "float64") for w in rnn.get_weights()])
    tensors = _tensors(compute)
    masks = MASK, MEMORY_MASK
    got = values_and_gradients(rnn, rnn._run_by_hand, tensors, masks)
    assert {r.dtype.name for r in got[0]} == {compute}
    assert all(np.isfinite(tf.cast(g, "float32")).all() for g in got[1])
    tensors = [tf.cast(x, "float64") for x in tensors]
    expected = values_and_gradients(exact, exact._run_by_hand, tensors, masks)
    assert_equal(exact, got, expected, tolerance)


@pytest.mark.parametrize("attention", ["plain", "general"])
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_one_graph_serves_all_lengths(jit_compile, attention):
    rnn = _rnn({}, ATTENTIONS[attention])
    traces = []

    @tf.function(
        jit_compile=jit_compile,
        input_signature=[
            tf.TensorSpec([None, None, INPUT], "float64"),
            tf.TensorSpec([None, None, MEMORY], "float64"),
            tf.TensorSpec([None, UNITS], "float64"),
            tf.TensorSpec([None, None], "bool"),
            tf.TensorSpec([None, None], "bool"),
        ],
    )
    def run(inputs, memory, state, mask, memory_mask):
        traces.append(1)
        watched = [inputs, memory, state, *(v.value for v in rnn.trainable_variables)]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = rnn(inputs, memory, mask=mask, memory_mask=memory_mask, initial_state=[state])
            loss = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(loss, watched)

    all_sizes = [(3, 4, 5), (2, 3, 1), (1, 1, 2), (2, 3, 0), (0, 3, 2)]
    # XLA cannot compile the body of a loop over what it sees to be nothing.
    for sizes in all_sizes if jit_compile else [*all_sizes, (2, 0, 3), (0, 0, 0)]:
        batch, steps, source = sizes
        tensors = _tensors("float64", *sizes)
        masks = tf.ones([batch, steps], tf.bool), tf.ones([batch, source], tf.bool)
        outputs, gradients = run(*tensors, *masks)
        assert outputs.shape == (batch, steps, UNITS + MEMORY)
        for value, gradient in zip([*tensors, *rnn.trainable_variables], gradients, strict=True):
            assert gradient.shape == value.shape, sizes
            assert np.isfinite(gradient).all(), sizes
    assert len(traces) == 1


@pytest.mark.parametrize("attention", ["plain", "general"])
def test_second_derivatives_are_exact(attention):
    rnn = _rnn({}, ATTENTIONS[attention])
    inputs, memory, state = _tensors()
    weight = rnn.cell.cell.recurrent_kernel.value

    def penalty_gradients(run):
        with tf.GradientTape() as outer:
            outer.watch([inputs, memory, weight])
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                outputs, *_ = run(inputs, memory, MASK, MEMORY_MASK, [state], False)
                loss = tf.reduce_sum(outputs**2)
            penalty = tf.reduce_sum(inner.gradient(loss, inputs) ** 2)
        return outer.gradient(penalty, [inputs, memory, weight])

    for compiled in (lambda f: f, tf.function):
        got = compiled(lambda: penalty_gradients(rnn._run_by_hand))()
        expected = compiled(lambda: penalty_gradients(rnn._run_cell))()
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


class _OtherCell(GRUCell):
    pass


class _OtherLSTMCell(LSTMCell):
    pass


def test_only_what_the_scan_computes_takes_its_path():
    def of(cell, attention=None, **options):
        return AttentionRNN(cell, attention or AdditiveAttention(4), **options)

    assert of(GRUCell(3)).has_own_gradient(training=True)
    assert of(GRUCell(3, dropout=0.1)).has_own_gradient(training=False)
    assert of(LSTMCell(3)).has_own_gradient(training=True)
    assert of(LSTMCell(3, recurrent_dropout=0.1)).has_own_gradient(training=False)
    assert of(PeepholeLSTMCell(3), LuongAttention("dot")).has_own_gradient()
    assert of(keras.layers.LSTMCell(3)).has_own_gradient()
    refused = [
        of(_OtherCell(3)),
        of(_OtherLSTMCell(3)),
        of([LSTMCell(3)]),
        of(LSTMCell(3, activation="relu")),
        of(LSTMCell(3, dropout=0.1)),
        of(LSTMCell(3, recurrent_dropout=0.1)),
        of(keras.layers.LSTMCell(3, dropout=0.1)),
        of(keras.layers.LSTMCell(3, recurrent_activation="hard_sigmoid")),
        of(PeepholeLSTMCell(3, dtype="bfloat16")),
        of(keras.layers.GRUCell(3)),
        of(GRUCell(3, activation="relu")),
        of(GRUCell(3, recurrent_activation="hard_sigmoid")),
        of(GRUCell(3, dropout=0.1)),
        of(GRUCell(3, recurrent_dropout=0.1)),
        of(GRUCell(3, dtype="bfloat16")),
        of(GRUCell(3), dtype="bfloat16"),
        of(GRUCell(3), AdditiveAttention(4, dtype="bfloat16")),
    ]
    assert not any(rnn.has_own_gradient(training=True) for rnn in refused)


def test_dropout_in_training_is_still_applied():
    rnn = AttentionRNN(GRUCell(3, dropout=0.5, seed=1), AdditiveAttention(4))
    inputs, memory = tf.ones([2, 4, 3]), tf.ones([2, 5, 3])
    assert not np.allclose(rnn(inputs, memory, training=True), rnn(inputs, memory))


@pytest.mark.parametrize("path", ["_run_by_hand", "_run_cell"])
def test_a_masked_step_aligns_with_nothing(path):
    rnn = _rnn()
    inputs, memory, state = _tensors()
    _, alignments, _ = getattr(rnn, path)(inputs, memory, MASK, None, [state], False)
    np.testing.assert_allclose(tf.reduce_sum(alignments, -1), MASK)
