"""The gradient by hand of `AttentionRNN` with an LSTM against that of the plain cell.

Masks, scores and sizes go through the loop that the GRU takes too, and are tried with that; here
are the forms of the LSTM and what only they have, further states that a masked step holds.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from attending_gradient import assert_equal, values_and_gradients

from keras_attn.layers import (
    AdditiveAttention,
    AttentionRNN,
    LSTMCell,
    LuongAttention,
    PeepholeLSTMCell,
)
from keras_attn.ops import lstm_attention_scan
from keras_attn.ops.recurrent import LSTM_BLOCKS

BATCH, STEPS, SOURCE, INPUT, MEMORY, UNITS = 3, 4, 5, 2, 6, 4
MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
MASKED, UNMASKED = (MASK, MEMORY_MASK), (None, None)


def _of(cell_class=LSTMCell, **options):
    return lambda dtype: cell_class(UNITS, dtype=dtype, **options)


CELLS = {
    "Keras": _of(keras.layers.LSTMCell),
    "Keras-no-bias": _of(keras.layers.LSTMCell, use_bias=False),
    "no-bias": _of(use_bias=False),
    "diagonal": _of(PeepholeLSTMCell),
    "diagonal-previous": _of(peepholes="diagonal", output_gate_sees="previous"),
    "full": _of(PeepholeLSTMCell, peepholes="full"),
    "full-previous": _of(peepholes="full", output_gate_sees="previous"),
    "plain": _of(),
    **{variant: _of(variant=variant) for variant in LSTM_BLOCKS if variant},
    **{
        f"{variant}-diagonal": _of(variant=variant, peepholes="diagonal")
        for variant in LSTM_BLOCKS
        if variant
    },
    "CIFG-full": _of(variant="CIFG", peepholes="full"),
    "FGR-full-previous": _of(variant="FGR", peepholes="full", output_gate_sees="previous"),
}
ATTENTIONS = {
    "additive": lambda dtype: AdditiveAttention(3, use_bias=True, dtype=dtype),
    "general": lambda dtype: LuongAttention("general", dtype=dtype),
}


def _rnn(cell, attention="additive", dtype="float64", scale=0.7):
    rnn = AttentionRNN(CELLS[cell](dtype), ATTENTIONS[attention](dtype), dtype=dtype)
    rnn.build((BATCH, STEPS, INPUT), (BATCH, SOURCE, MEMORY))
    rng = np.random.default_rng(1)
    rnn.set_weights([scale * rng.standard_normal(w.shape) for w in rnn.get_weights()])
    assert rnn.has_own_gradient(training=True)
    return rnn


def _tensors(rnn, dtype="float64", batch=BATCH, steps=STEPS, source=SOURCE):
    rng = np.random.default_rng(2)
    shapes = [(batch, steps, INPUT), (batch, source, MEMORY)]
    shapes += [(batch, size) for size in rnn.cell.state_size]
    return [tf.constant(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("cell", "attention", "masks"),
    [
        *((cell, "additive", MASKED) for cell in CELLS),
        *(
            (cell, "general", UNMASKED)
            for cell in ("plain", "diagonal", "NOG", "FGR-full-previous")
        ),
    ],
)
def test_gradients_are_those_of_the_plain_cell(cell, attention, masks):
    rnn = _rnn(cell, attention)
    by_hand, plain = (
        values_and_gradients(rnn, run, _tensors(rnn), masks)
        for run in (rnn._run_by_hand, rnn._run_cell)
    )
    # In float64 an error of the algebra cannot hide behind rounding.
    assert_equal(rnn, by_hand, plain, 1e-11)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        ("float32", 1e-5),
        ("bfloat16", 6e-2),
        ("mixed_bfloat16", 6e-2),
        ("float16", 1e-2),
        ("mixed_float16", 1e-2),
    ],
)
def test_lower_precision_stays_close_to_float64(dtype, tolerance):
    compute = keras.dtype_policies.get(dtype).compute_dtype
    # Small weights, for where a softmax is nearly one hot bfloat16 decides at random.
    form = "FGR-diagonal", "general"
    rnn, exact = _rnn(*form, dtype=dtype, scale=0.35), _rnn(*form)
    exact.set_weights([np.asarray(w, "float64") for w in rnn.get_weights()])
    tensors = _tensors(rnn, compute)
    got = values_and_gradients(rnn, rnn._run_by_hand, tensors, MASKED)
    assert {r.dtype.name for r in got[0]} == {compute}
    tensors = [tf.cast(x, "float64") for x in tensors]
    expected = values_and_gradients(exact, exact._run_by_hand, tensors, MASKED)
    assert_equal(exact, got, expected, tolerance)


@pytest.mark.parametrize("cell", ["diagonal", "CIFG", "FGR"])
def test_a_float32_graph_computes_the_plain_cell(cell):
    """There XLA compiles what a step computes element by element."""
    rnn = _rnn(cell, dtype="float32")
    by_hand, plain = (
        tf.function(values_and_gradients)(rnn, run, _tensors(rnn, "float32"), MASKED)
        for run in (rnn._run_by_hand, rnn._run_cell)
    )
    for a, b in zip(by_hand[0], plain[0], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert_equal(rnn, by_hand, plain, 1e-5)


def test_eager_graph_and_xla_agree_for_all_sizes():
    rnn = _rnn("FGR-diagonal")

    def run(inputs, memory, mask, memory_mask, *states):
        watched = [inputs, memory, *states, *(v.value for v in rnn.trainable_variables)]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = rnn(inputs, memory, mask=mask, memory_mask=memory_mask, initial_state=states)
            loss = tf.reduce_sum(outputs**2)
        return [outputs, *tape.gradient(loss, watched)]

    signature = [
        tf.TensorSpec([None, None, INPUT], "float64"),
        tf.TensorSpec([None, None, MEMORY], "float64"),
        *[tf.TensorSpec([None, None], "bool")] * 2,
        *(tf.TensorSpec([None, size], "float64") for size in rnn.cell.state_size),
    ]
    graph = tf.function(run, input_signature=signature)
    compiled = tf.function(run, jit_compile=True)
    for n, sizes in enumerate([(3, 4, 5), (1, 1, 2), (2, 3, 0), (0, 3, 2), (2, 0, 3)]):
        inputs, memory, *states = _tensors(rnn, "float64", *sizes)
        masks = [tf.ones(x.shape[:2], tf.bool) for x in (inputs, memory)] if n else MASKED
        expected = run(inputs, memory, *masks, *states)
        for other in (graph, compiled)[: 1 if n else 2]:
            for a, b in zip(other(inputs, memory, *masks, *states), expected, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


def test_a_gradient_of_what_saved_nothing_computes_it_once_more():
    rng = np.random.default_rng(0)
    inputs, memory, keys, kernel, recurrent_kernel = (
        tf.constant(rng.standard_normal(shape))
        for shape in [(2, 3, 2), (2, 5, 6), (2, 5, 4), (8, 16), (4, 16)]
    )

    def run(saves):
        watched = [inputs, memory, keys, kernel, recurrent_kernel]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs, _, states = lstm_attention_scan(
                inputs,
                memory,
                keys,
                [tf.zeros([2, 4], "float64")] * 2,
                kernel=kernel,
                recurrent_kernel=recurrent_kernel,
                saves=saves,
            )
            loss = tf.reduce_sum(outputs**2) + tf.reduce_sum(states[1] ** 3)
        return [outputs, *tape.gradient(loss, watched)]

    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_second_derivatives_are_exact():
    rnn = _rnn("full", "general")
    inputs, memory, *states = _tensors(rnn, steps=2)
    weight = rnn.cell.cell.peephole_kernel.value

    def penalty_gradients(run):
        with tf.GradientTape() as outer:
            outer.watch([inputs, memory, weight])
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                outputs, *_ = run(inputs, memory, MASK[:, :2], MEMORY_MASK, states, False)
                loss = tf.reduce_sum(outputs**2)
            penalty = tf.reduce_sum(inner.gradient(loss, inputs) ** 2)
        return outer.gradient(penalty, [inputs, memory, weight])

    got, expected = map(penalty_gradients, (rnn._run_by_hand, rnn._run_cell))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("cell_class", [LSTMCell, keras.layers.LSTMCell])
def test_dropout_in_training_is_still_applied(cell_class):
    rnn = AttentionRNN(cell_class(3, dropout=0.5, seed=1), AdditiveAttention(4))
    inputs, memory = tf.ones([2, 4, 3]), tf.ones([2, 5, 3])
    assert not np.allclose(rnn(inputs, memory, training=True), rnn(inputs, memory))


def test_weights_that_the_form_lacks_are_refused():
    tensors = tf.ones([2, 3, 2]), tf.ones([2, 5, 4]), tf.ones([2, 5, 4]), [tf.zeros([2, 4])] * 2
    with pytest.raises(ValueError, match=r"no place for it. Received: .*peephole_kernel given"):
        lstm_attention_scan(
            *tensors,
            kernel=tf.ones([6, 16]),
            recurrent_kernel=tf.ones([4, 16]),
            peephole_kernel=tf.ones([3, 4]),
        )
