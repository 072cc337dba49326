import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import GRU, AdditiveAttention, AttentionCell, AttentionRNN, GRUCell

BATCH, STEPS, SOURCE, INPUT, MEMORY, UNITS = 3, 4, 5, 2, 6, 7


@pytest.fixture
def inputs():
    return keras.random.normal((BATCH, STEPS, INPUT))


@pytest.fixture
def memory():
    return keras.random.normal((BATCH, SOURCE, MEMORY))


MEMORY_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)


def _rnn(cell=None, **options):
    return AttentionRNN(cell or GRUCell(UNITS), AdditiveAttention(4), **options)


def _in_numpy(rnn, inputs, memory, mask):
    """The paper's equations, one example and one step at a time."""
    attention, gru = rnn.cell.attention, rnn.cell.cell
    w, u, v = (x.numpy() for x in attention.weights)
    kernel, recurrent, bias = (x.numpy() for x in gru.weights)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    outputs, alignments = [], []
    for x, h, visible in zip(np.array(inputs), np.array(memory), mask, strict=True):
        s = np.zeros(UNITS)
        for x_t in x:
            energy = np.tanh(s @ w + h @ u) @ v
            a = np.where(visible, np.exp(energy), 0)
            a = a / max(a.sum(), 1e-30)
            c = a @ h
            zx, rx, hx = np.split(np.concatenate([x_t, c]) @ kernel + bias, 3)
            zu, ru, hu = np.split(recurrent, 3, axis=1)
            z, r = sigmoid(zx + s @ zu), sigmoid(rx + s @ ru)
            s = z * s + (1 - z) * np.tanh(hx + (r * s) @ hu)
            outputs.append(np.concatenate([s, c]))
            alignments.append(a)
    shape = (BATCH, STEPS, -1)
    return np.reshape(outputs, shape), np.reshape(alignments, shape)


def test_every_step_is_that_of_the_paper(inputs, memory):
    rnn = _rnn(return_alignments=True)
    outputs, alignments = rnn(inputs, memory, memory_mask=MEMORY_MASK)
    expected_outputs, expected_alignments = _in_numpy(rnn, inputs, memory, MEMORY_MASK)
    np.testing.assert_allclose(outputs, expected_outputs, atol=1e-5)
    np.testing.assert_allclose(alignments, expected_alignments, atol=1e-6)


def test_a_memory_without_a_real_position_gives_no_context_and_finite_gradients(inputs, memory):
    rnn = _rnn(return_alignments=True)
    with tf.GradientTape() as tape:
        outputs, alignments = rnn(inputs, memory, memory_mask=np.zeros((BATCH, SOURCE), bool))
        loss = tf.reduce_sum(outputs**2)
    gradients = tape.gradient(loss, [w.value for w in rnn.trainable_weights])
    np.testing.assert_array_equal(alignments, 0)
    np.testing.assert_array_equal(outputs[..., UNITS:], 0)
    assert all(np.isfinite(g).all() for g in gradients if g is not None)


def test_what_padding_of_the_memory_holds_changes_nothing(inputs, memory):
    rnn = _rnn()
    spoilt = tf.where(MEMORY_MASK[..., None], memory, np.nan)
    np.testing.assert_array_equal(
        rnn(inputs, memory, memory_mask=MEMORY_MASK), rnn(inputs, spoilt, memory_mask=MEMORY_MASK)
    )


def test_a_masked_step_holds_state_and_output(inputs, memory):
    rnn = _rnn(return_alignments=True, return_state=True)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
    outputs, _, state = rnn(inputs, memory, mask=mask)
    for row in range(BATCH):
        real = np.asarray(inputs)[row : row + 1, mask[row]]
        expected, _, expected_state = rnn(real, memory[row : row + 1])
        np.testing.assert_allclose(np.asarray(outputs)[row, mask[row]], expected[0], atol=1e-6)
        np.testing.assert_allclose(state[row], expected_state[0], atol=1e-6)
    np.testing.assert_array_equal(outputs[0, 2], outputs[0, 1])
    np.testing.assert_array_equal(outputs[1, 0], 0)


def test_stepping_the_cell_is_running_the_layer(inputs, memory):
    rnn = _rnn(return_alignments=True)
    outputs, alignments = rnn(inputs, memory, memory_mask=MEMORY_MASK)
    states = rnn.cell.get_initial_state(BATCH)
    for t in range(STEPS):
        output, alignment, states = rnn.cell(inputs[:, t], states, memory, memory_mask=MEMORY_MASK)
        np.testing.assert_allclose(output, outputs[:, t], atol=1e-6)
        np.testing.assert_allclose(alignment, alignments[:, t], atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager_with_unknown_lengths(inputs, memory, jit_compile):
    rnn = _rnn(return_alignments=True)
    eager = rnn(inputs, memory, memory_mask=MEMORY_MASK)

    @tf.function(
        jit_compile=jit_compile,
        input_signature=[
            tf.TensorSpec([None, None, INPUT]),
            tf.TensorSpec([None, None, MEMORY]),
            tf.TensorSpec([None, None], tf.bool),
        ],
    )
    def run(inputs, memory, memory_mask):
        return rnn(inputs, memory, memory_mask=memory_mask)

    for got, expected in zip(run(inputs, memory, MEMORY_MASK), eager, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("batch", "steps", "source"), [(0, 3, 2), (2, 0, 3), (2, 1, 1), (2, 3, 0), (0, 0, 0)]
)
@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
def test_sizes_of_zero_and_one_keep_their_shapes(batch, steps, source, masked):
    rnn = _rnn(return_alignments=True, return_state=True)
    mask = tf.TensorSpec([None, None], tf.bool)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, INPUT]),
            tf.TensorSpec([None, None, MEMORY]),
            mask,
        ]
    )
    def run(inputs, memory, mask):
        return rnn(inputs, memory, mask=mask if masked else None)

    outputs, alignments, state = run(
        tf.zeros([batch, steps, INPUT]),
        tf.zeros([batch, source, MEMORY]),
        tf.ones([batch, steps], tf.bool),
    )
    assert outputs.shape == (batch, steps, UNITS + MEMORY)
    assert alignments.shape == (batch, steps, source)
    assert state.shape == (batch, UNITS)


def test_gradients_are_those_of_finite_differences():
    rnn = AttentionRNN(
        GRUCell(2, dtype="float64"), AdditiveAttention(2, dtype="float64"), dtype="float64"
    )
    mask = np.array([[True, True, False]])
    theoretical, numerical = tf.test.compute_gradient(
        tf.function(lambda inputs, memory: rnn(inputs, memory, memory_mask=mask)),
        [
            tf.random.normal([1, 2, 2], dtype="float64"),
            tf.random.normal([1, 3, 2], dtype="float64"),
        ],
    )
    for got, expected in zip(theoretical, numerical, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_stacked_and_lstm_cells_attend_with_their_first_state(inputs, memory):
    stacked = keras.layers.StackedRNNCells([GRUCell(UNITS), GRUCell(UNITS)])
    for cell in (keras.layers.LSTMCell(UNITS), stacked):
        outputs, alignments = _rnn(cell, return_alignments=True)(inputs, memory)
        assert outputs.shape == (BATCH, STEPS, UNITS + MEMORY)
        np.testing.assert_allclose(tf.reduce_sum(alignments, -1), 1, atol=1e-6)


def test_automatic_keras_masks_reach_the_loop_and_the_memory():
    source = keras.Input((SOURCE,), dtype="int32")
    target = keras.Input((STEPS,), dtype="int32")
    memory = GRU(MEMORY, return_sequences=True)(
        keras.layers.Embedding(9, 4, mask_zero=True)(source)
    )
    rnn = _rnn(return_alignments=True)
    embedded = keras.layers.Embedding(9, INPUT, mask_zero=True)(target)
    _, alignments = rnn(embedded, memory)
    model = keras.Model([source, target], alignments)
    found = model([np.array([[3, 4, 0, 0, 0]]), np.array([[5, 6, 0, 0]])])
    np.testing.assert_array_equal(found[0, :, 2:], 0)
    np.testing.assert_allclose(tf.reduce_sum(found[0, :2], -1), 1, atol=1e-6)


def test_symbolic_shapes_are_those_of_the_tensors():
    outputs, alignments, state = _rnn(return_alignments=True, return_state=True)(
        keras.Input((None, INPUT)), keras.Input((SOURCE, MEMORY))
    )
    assert outputs.shape == (None, None, UNITS + MEMORY)
    assert alignments.shape == (None, None, SOURCE)
    assert state.shape == (None, UNITS)


def test_a_cell_is_not_built_without_a_memory():
    with pytest.raises(ValueError, match="memory"):
        AttentionCell(GRUCell(2), AdditiveAttention(2)).build((None, 3))
