"""What wraps a cell keeps the contract of Keras' RNN: dropout, precision, saving, minimal cells."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_check import check_layer

from keras_attn.layers import (
    AdditiveAttention,
    AttentionCell,
    AttentionRNN,
    GRUCell,
    LSTMCell,
    LuongAttention,
    MultiHeadAttention,
    PeepholeLSTMCell,
)

rng = np.random.default_rng(0)
INPUTS = rng.standard_normal((3, 5, 4)).astype("float32")
MEMORY = rng.standard_normal((3, 6, 2)).astype("float32")
MASK = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 1, 1, 1]], bool)
MEMORY_MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]], bool)


@keras.saving.register_keras_serializable(package="wrapped_cells")
class MinimalCell(keras.layers.Layer):
    """All that Keras asks of a cell."""

    state_size = 4

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], 4))

    def call(self, inputs, states):
        state = keras.ops.tanh(keras.ops.matmul(inputs, self.kernel) + states[0])
        return state, [state]


CELLS = {
    "GRU": lambda **kwargs: GRUCell(4, **kwargs),
    "LSTM": lambda **kwargs: LSTMCell(4, **kwargs),
    "peephole": lambda **kwargs: PeepholeLSTMCell(4, peepholes="full", **kwargs),
    "Keras-GRU": lambda **kwargs: keras.layers.GRUCell(4, **kwargs),
    "Keras-LSTM": lambda **kwargs: keras.layers.LSTMCell(4, **kwargs),
    "stack": lambda **kwargs: [LSTMCell(4, **kwargs), keras.layers.GRUCell(3, **kwargs)],
}
all_cells = pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)

CONTRACTS = {
    "by-hand": lambda dtype: (GRUCell(4, dtype=dtype), AdditiveAttention(3, dtype=dtype)),
    "by-hand-LSTM": lambda dtype: (
        PeepholeLSTMCell(4, dtype=dtype),
        LuongAttention("general", dtype=dtype),
    ),
    "steps": lambda dtype: (
        [LSTMCell(4, dtype=dtype), MinimalCell(dtype=dtype)],
        LuongAttention("general", dtype=dtype),
    ),
}


@pytest.mark.parametrize("name", CONTRACTS)
def test_attention_rnn_contract(name, tmp_path):
    check_layer(
        lambda dtype: AttentionRNN(
            *CONTRACTS[name](dtype), return_alignments=True, return_state=True, dtype=dtype
        ),
        {"inputs": INPUTS, "memory": MEMORY},
        tmp_path,
        masks={"mask": ("inputs", MASK), "memory_mask": ("memory", MEMORY_MASK)},
    )


def test_attention_cell_contract(tmp_path):
    state = rng.standard_normal((3, 4))
    check_layer(
        lambda dtype: AttentionCell(
            GRUCell(4, dtype=dtype), AdditiveAttention(3, dtype=dtype), dtype=dtype
        ),
        {"inputs": INPUTS[:, 0], "state": state, "memory": MEMORY},
        tmp_path,
        dynamic_axes=(0,),
        call=lambda cell, inputs, state, memory: cell(inputs, [state], memory),
    )


def _rnn(cell, attention=None, **options):
    return AttentionRNN(cell, attention or AdditiveAttention(3), **options)


@all_cells
@pytest.mark.parametrize("kind", ["dropout", "recurrent_dropout"])
def test_a_sequence_has_one_dropout_mask_and_each_call_another(make, kind):
    """With equal inputs at all steps and no recurrence, equal masks give equal outputs."""
    rnn = _rnn(make(**{kind: 0.5}))
    first = rnn(INPUTS, MEMORY, training=True)
    assert np.any(rnn(INPUTS, MEMORY, training=True) != first)
    np.testing.assert_array_equal(rnn(INPUTS, MEMORY), rnn(INPUTS, MEMORY, training=False))
    assert rnn(INPUTS[:1], MEMORY[:1], training=True).shape == (1, *first.shape[1:])


@pytest.mark.parametrize("cell_class", [GRUCell, keras.layers.GRUCell])
def test_what_a_cell_drops_is_the_same_at_every_step(cell_class):
    class Spy(cell_class):
        def call(self, inputs, states, training=False):
            dropped.append(np.array(self.get_dropout_mask(inputs)))
            return super().call(inputs, states, training)

    dropped = []
    rnn = _rnn(Spy(4, dropout=0.5))
    rnn(INPUTS, MEMORY, training=True)
    rnn(INPUTS, MEMORY, training=True)
    one, other = dropped[:5], dropped[5:]
    assert len(other) == 5
    assert all(np.array_equal(mask, one[0]) for mask in one)
    assert all(np.array_equal(mask, other[0]) for mask in other)
    assert not np.array_equal(one[0], other[0])


@pytest.mark.parametrize(("name", "jit_compile"), [("GRU", False), ("stack", True)])
def test_dropout_trains_in_fit(name, jit_compile):
    symbol = keras.Input((3, 4))
    cell = CELLS[name](dropout=0.2, recurrent_dropout=0.2)
    model = keras.Model(symbol, _rnn(cell)(symbol, symbol))
    model.compile("adam", "mse", jit_compile=jit_compile)
    target = np.zeros((3, *model.output_shape[1:]), "float32")
    batch_size = 3 if jit_compile else 2  # XLA would compile a smaller last batch anew
    history = model.fit(INPUTS[:, :3], target, batch_size=batch_size, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_in_a_compiled_function_each_call_drops_anew():
    rnn = _rnn(GRUCell(4, dropout=0.5))
    run = tf.function(lambda: rnn(INPUTS, MEMORY, training=True))
    assert np.any(run() != run())


def test_a_cell_alone_forgets_its_masks_when_told():
    cell = AttentionCell([GRUCell(4, dropout=0.5), LSTMCell(3)], AdditiveAttention(3))
    step = functools.partial(cell, INPUTS[:, 0], cell.get_initial_state(3), MEMORY, training=True)
    first, same = step()[0], step()[0]
    cell.reset_dropout_mask()
    cell.reset_recurrent_dropout_mask()
    np.testing.assert_array_equal(first, same)
    assert np.any(step()[0] != first)


@pytest.mark.parametrize(
    "dtype", ["mixed_float16", "mixed_bfloat16", "bfloat16", "float16", "float64", "map"]
)
@all_cells
def test_a_precision_of_the_wrapper_alone_is_that_of_the_results(make, dtype):
    if dtype == "map":
        policy = keras.dtype_policies.DTypePolicyMap(
            "mixed_float16", {"rnn/attention_cell": keras.dtype_policies.DTypePolicy("bfloat16")}
        )
        expected = "float16"
    else:
        policy = dtype
        expected = keras.dtype_policies.get(dtype).compute_dtype
    exact = _rnn(make(), return_alignments=True, return_state=True)
    rnn = _rnn(make(), return_alignments=True, return_state=True, dtype=policy, name="rnn")
    outputs = rnn(INPUTS, MEMORY, mask=MASK)
    assert {output.dtype.name for output in outputs} == {expected}
    exact(INPUTS, MEMORY)
    rnn.set_weights(exact.get_weights())
    for got, wanted in zip(
        rnn(INPUTS, MEMORY, mask=MASK), exact(INPUTS, MEMORY, mask=MASK), strict=True
    ):
        np.testing.assert_allclose(tf.cast(got, "float32"), wanted, atol=0.02)


@pytest.mark.parametrize("attention_class", [AdditiveAttention, LuongAttention])
def test_an_attention_of_another_precision_computes_in_its_own(attention_class):
    """What a float16 layer asks of a float32 attention is not rounded on the way."""
    option = 3 if attention_class is AdditiveAttention else "general"
    memory = 0.1 * MEMORY + 1
    exact = AttentionCell(GRUCell(4), attention_class(option))
    mixed = AttentionCell(GRUCell(4), attention_class(option), dtype="mixed_float16")
    states = [INPUTS[:, 0]]
    expected = exact(INPUTS[:, 0], states, memory)
    mixed(INPUTS[:, 0], states, memory)
    mixed.set_weights(exact.get_weights())
    _, _, (state,) = mixed(INPUTS[:, 0], states, memory)
    np.testing.assert_allclose(state, expected[2][0], atol=1e-6)
    half = _rnn(GRUCell(4), attention_class(option, dtype="mixed_bfloat16"))
    assert half(INPUTS, MEMORY).dtype == "float32"


def test_states_come_flat_and_go_in_flat_or_nested():
    rnn = _rnn(CELLS["stack"](), return_state=True)
    whole, *end = rnn(INPUTS, MEMORY)
    assert [tuple(state.shape) for state in end] == [(3, 4), (3, 4), (3, 3)]
    first, *middle = rnn(INPUTS[:, :2], MEMORY)
    nested = [middle[:2], middle[2]]
    for states in (middle, nested):
        second, *same_end = rnn(INPUTS[:, 2:], MEMORY, initial_state=states)
        np.testing.assert_allclose(np.concatenate([first, second], 1), whole, atol=1e-6)
        for got, expected in zip(same_end, end, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_cell_may_be_a_plain_object():
    class Sum:
        state_size = 2

        def call(self, inputs, states):
            state = states[0] + tf.reduce_sum(inputs, axis=-1, keepdims=True)
            return state, state

    rnn = _rnn(Sum(), return_state=True)
    outputs, state = rnn(INPUTS, 0 * MEMORY)
    np.testing.assert_allclose(outputs[:, -1, 0], INPUTS.sum((1, 2)), rtol=1e-5)
    assert state.shape == (3, 2)


def test_integers_and_booleans_are_numbers():
    rnn = _rnn(GRUCell(4), return_state=True)
    integers, memory = np.arange(60).reshape(3, 5, 4) % 3, np.arange(36).reshape(3, 6, 2) % 2
    expected = rnn(integers.astype("float32"), memory.astype("float32"))
    for got in (rnn(integers, memory), rnn(integers.astype("uint8"), memory.astype(bool))):
        np.testing.assert_array_equal(got[0], expected[0])
    symbols = keras.Input((5, 4), dtype="int32"), keras.Input((6, 2), dtype="bool")
    model = keras.Model(symbols, rnn(*symbols))
    np.testing.assert_array_equal(model([integers, memory.astype(bool)])[0], expected[0])


BAD = {
    "no-cell": (lambda: _rnn(keras.layers.Dense(3)), "cell=<Dense"),
    "mask": (lambda: _rnn(GRUCell(4))(INPUTS, MEMORY, mask=MASK[:, :4]), r"mask.shape=\(3, 4\)"),
    "memory-mask": (
        lambda: _rnn(GRUCell(4))(INPUTS, MEMORY, memory_mask=MASK),
        r"memory_mask.shape=\(3, 5\)",
    ),
    "batch": (lambda: _rnn(GRUCell(4))(INPUTS, MEMORY[:2]), r"memory.shape=\(2, 6, 2\)"),
    "rank": (lambda: _rnn(GRUCell(4))(INPUTS, MEMORY[:, 0]), r"memory.shape=\(3, 2\)"),
    "symbolic-rank": (
        lambda: _rnn(GRUCell(4))(keras.Input((5, 4)), keras.Input((2,))),
        r"memory.shape=\(None, 2\)",
    ),
    "states": (
        lambda: _rnn(LSTMCell(4))(INPUTS, MEMORY, initial_state=[INPUTS[:, 0]]),
        "initial_state of 1 tensors",
    ),
    "state-size": (
        lambda: _rnn(GRUCell(4))(INPUTS, MEMORY, initial_state=[INPUTS[:, 0, :3]]),
        r"initial_state of shapes \[\(3, 3\)\]",
    ),
    "attention": (lambda: _rnn(GRUCell(4), keras.layers.Dense(3)), "attention=<Dense"),
    "heads": (lambda: _rnn(GRUCell(4), MultiHeadAttention(2, 2)), "attention=<MultiHeadAttention"),
    "cell-rank": (lambda: _step(INPUTS, INPUTS[:, 0]), r"inputs.shape=\(3, 5, 4\)"),
    "cell-state": (lambda: _step(INPUTS[:, 0], INPUTS[:, 0, :3]), r"states of shapes \[\(3, 3\)\]"),
    "cell-memory-mask": (
        lambda: _step(INPUTS[:, 0], INPUTS[:, 0], memory_mask=MASK),
        r"memory_mask.shape=\(3, 5\)",
    ),
    "number-of-states": (lambda: _rnn(_LosesState())(INPUTS, MEMORY), "1 states from cell="),
}


def _step(inputs, state, **options):
    return AttentionCell(GRUCell(4), AdditiveAttention(3))(inputs, [state], MEMORY, **options)


class _LosesState(LSTMCell):
    def __init__(self):
        super().__init__(4)

    def call(self, inputs, states, training=False):
        output, states = super().call(inputs, states, training)
        return output, states[:1]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_refused_in_a_sentence(name):
    call, received = BAD[name]
    with pytest.raises(ValueError, match=f"(?s)Received: .*{received}"):
        call()
