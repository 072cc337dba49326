"""What all recurrent layers share: Keras' contract, and masks, states and errors of our own."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_check import check_layer

from keras_attn.layers import GRU, LSTM, GRUCell, LSTMCell, PeepholeLSTM, PeepholeLSTMCell, cudnn

CONTRACT_LAYERS = {
    "LSTM": (LSTM, {"return_sequences": True, "return_state": True}),
    "LSTM-FGR-full": (LSTM, {"variant": "FGR", "peepholes": "full", "return_state": True}),
    "PeepholeLSTM-backwards": (
        PeepholeLSTM,
        {"return_sequences": True, "zero_output_for_mask": True, "go_backwards": True},
    ),
    "GRU": (GRU, {"return_sequences": True}),
    "GRU-reset-after": (GRU, {"reset_after": True, "return_state": True}),
}
LAYERS = {
    "LSTM": LSTM,
    "CIFG": functools.partial(LSTM, variant="CIFG"),
    "FGR": functools.partial(LSTM, variant="FGR"),
    "PeepholeLSTM": PeepholeLSTM,
    "GRU": GRU,
    "GRU-reset-after": functools.partial(GRU, reset_after=True),
}
all_layers = pytest.mark.parametrize("layer_class", LAYERS.values(), ids=LAYERS)

INPUTS = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 0, 0, 0]], bool)
MASKED_STARTS_AND_ENDS = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 1, 1, 1]], bool)


@pytest.mark.parametrize("name", CONTRACT_LAYERS)
def test_layer_contract(name, tmp_path):
    layer_class, options = CONTRACT_LAYERS[name]
    check_layer(
        lambda **kwargs: layer_class(6, **options, **kwargs),
        {"sequences": INPUTS},
        tmp_path,
        masks={"mask": ("sequences", MASKED_STARTS_AND_ENDS)},
    )


@pytest.mark.parametrize("cell_class", [LSTMCell, PeepholeLSTMCell, GRUCell])
def test_cell_contract(cell_class, tmp_path):
    state = np.random.default_rng(1).standard_normal((3, 6))
    states = {"h": state} if cell_class is GRUCell else {"h": state, "c": -state}
    check_layer(
        lambda **kwargs: cell_class(6, **kwargs),
        {"inputs": INPUTS[:, 0], **states},
        tmp_path,
        dynamic_axes=(0,),
        call=lambda cell, inputs, **states: cell(inputs, list(states.values())),
    )


def _twin(layer, **changes):
    """The layer with other arguments and the same weights."""
    twin = type(layer).from_config({**layer.get_config(), **changes})
    twin.build(INPUTS.shape)
    twin.set_weights(layer.get_weights())
    return twin


def _random_states(layer, seed=2):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((3, size)).astype("float32") for size in layer.state_size]


def _built(layer_class, **kwargs):
    layer = layer_class(6, return_sequences=True, return_state=True, **kwargs)
    layer.build(INPUTS.shape)
    rng = np.random.default_rng(3)
    layer.set_weights([0.5 * rng.standard_normal(w.shape) for w in layer.get_weights()])
    return layer


@all_layers
@pytest.mark.parametrize("go_backwards", [False, True])
def test_masked_steps_change_nothing(layer_class, go_backwards):
    """Each masked sequence gives what the steps that remain of it give, bit by bit the states."""
    layer = _built(layer_class, go_backwards=go_backwards)
    initial = _random_states(layer)
    outputs, *states = layer(INPUTS, mask=MASK, initial_state=initial)
    for b in range(3):
        own = [state[b : b + 1] for state in initial]
        last = own[0]
        if MASK[b].any():
            kept, *own = layer(INPUTS[b : b + 1, MASK[b]], initial_state=own)
        order = MASK[b, ::-1] if go_backwards else MASK[b]
        taken = 0
        for t, is_taken in enumerate(order):
            if is_taken:
                last = kept[:, taken]
                taken += 1
            np.testing.assert_allclose(outputs[b, t], last[0], atol=1e-6, err_msg=f"{b}, {t}")
        for state, expected in zip(states, own, strict=True):
            np.testing.assert_allclose(state[b], expected[0], atol=1e-6)
    np.testing.assert_array_equal(states[0][2], initial[0][2])


@all_layers
@pytest.mark.parametrize("go_backwards", [False, True])
def test_zero_output_for_mask_zeroes_the_sequence_alone(layer_class, go_backwards):
    layer = _built(layer_class, go_backwards=go_backwards)
    held, *states = layer(INPUTS, mask=MASK)
    zeroing = _twin(layer, zero_output_for_mask=True)
    zeroed, *same_states = zeroing(INPUTS, mask=MASK)
    order = MASK[:, ::-1] if go_backwards else MASK
    np.testing.assert_array_equal(zeroed, np.where(order[..., None], held, 0))
    for state, same in zip(states, same_states, strict=True):
        np.testing.assert_array_equal(state, same)
    last = _twin(zeroing, return_sequences=False, return_state=False)(INPUTS, mask=MASK)
    np.testing.assert_array_equal(last, states[0])


@all_layers
@pytest.mark.parametrize("mask", [None, MASK], ids=["no-mask", "mask"])
def test_unrolled_last_and_backwards_agree_with_the_loop(layer_class, mask):
    layer = _built(layer_class)
    expected = layer(INPUTS, mask=mask)
    run = lambda layer: tf.function(lambda x: layer(x, mask=mask))  # noqa: E731
    for twin in (layer, _twin(layer, unroll=True)):
        for got, e in zip(run(twin)(INPUTS), expected, strict=True):
            np.testing.assert_allclose(got, e, atol=1e-6)
    last = run(_twin(layer, return_sequences=False))(INPUTS)
    np.testing.assert_allclose(last[0], last[1], atol=0)
    flipped = _twin(layer, go_backwards=True)(
        INPUTS[:, ::-1], mask=None if mask is None else mask[:, ::-1]
    )
    for got, e in zip(flipped, expected, strict=True):
        np.testing.assert_allclose(got, e, atol=1e-6)


@all_layers
def test_a_mask_goes_on_in_the_order_of_the_outputs(layer_class):
    """Two layers backwards read what one reads forwards: the mask must turn with the steps."""
    turn = _built(layer_class, go_backwards=True)
    again = layer_class(6, go_backwards=True)
    inputs = np.where(MASK[..., None], INPUTS, 0).astype("float32")
    masked = keras.layers.Masking()(inputs)
    outputs, *_ = turn(masked)
    got = again(outputs)
    np.testing.assert_array_equal(outputs._keras_mask, MASK[:, ::-1])
    np.testing.assert_allclose(got, again(np.array(outputs), mask=MASK[:, ::-1]), atol=1e-6)

    model = keras.Sequential(
        [keras.Input((None, 4)), keras.layers.Masking(), _twin(turn, return_state=False), again]
    )
    np.testing.assert_allclose(model(inputs), got, atol=1e-6)
    last = _twin(turn, return_sequences=False, return_state=False)
    assert last.compute_mask(inputs, MASK) is None
    assert turn.compute_mask(inputs, None) == [None] * (1 + len(turn.state_size))


@all_layers
def test_no_step_at_all_returns_the_initial_state(layer_class):
    layer = _built(layer_class)
    initial = _random_states(layer)
    run = tf.function(
        lambda x: layer(x, initial_state=initial),
        input_signature=[tf.TensorSpec([None, None, 4])],
    )
    for call in (lambda x: layer(x, initial_state=initial), run):
        outputs, *states = call(tf.zeros([3, 0, 4]))
        assert outputs.shape == (3, 0, 6)
        for state, expected in zip(states, initial, strict=True):
            np.testing.assert_array_equal(state, expected)


@all_layers
def test_states_continue_a_sequence(layer_class):
    layer = _built(layer_class)
    whole, *end = layer(INPUTS)
    first, *middle = layer(INPUTS[:, :2])
    second, *same_end = layer(INPUTS[:, 2:], initial_state=middle)
    np.testing.assert_allclose(np.concatenate([first, second], 1), whole, atol=1e-6)

    stateful = _twin(layer, stateful=True)
    for _ in range(2):
        stateful(INPUTS[:, :2])
        third = stateful(INPUTS[:, 2:])
        for got, one, two in zip(third[1:], end, same_end, strict=True):
            np.testing.assert_allclose(got, one, atol=1e-6)
            np.testing.assert_allclose(two, one, atol=1e-6)
        stateful.reset_state()


@all_layers
def test_bidirectional_with_a_mask_reads_both_ways(layer_class):
    forward = layer_class(6, return_sequences=True)
    both = keras.layers.Bidirectional(forward)
    merged = both(INPUTS, mask=MASK)
    assert isinstance(both.backward_layer, type(forward))
    # Bidirectional makes masked steps zero, and turns the backward outputs round again.
    one, other = both.forward_layer, both.backward_layer
    assert other.go_backwards
    expected = np.concatenate(
        [one(INPUTS, mask=MASK), other(INPUTS, mask=MASK).numpy()[:, ::-1]], -1
    )
    np.testing.assert_allclose(merged, expected, atol=1e-6)
    assert not np.any(merged.numpy()[~MASK])


@pytest.mark.parametrize("cell_class", [LSTMCell, PeepholeLSTMCell, GRUCell])
def test_cells_in_keras_rnn_and_stacked_equal_the_layers(cell_class):
    layer_class = {LSTMCell: LSTM, PeepholeLSTMCell: PeepholeLSTM, GRUCell: GRU}[cell_class]
    cells = [cell_class(6), cell_class(5)]
    stacked = keras.layers.RNN(keras.layers.StackedRNNCells(cells), return_sequences=True)
    got = stacked(INPUTS)
    expected = INPUTS
    for cell in cells:
        layer = layer_class(cell.units, return_sequences=True)
        layer.build(expected.shape)
        layer.set_weights(cell.get_weights())
        expected = layer(expected)
    np.testing.assert_allclose(got, expected, atol=1e-6)

    dropping = keras.layers.RNN([cell_class(6, dropout=0.3, recurrent_dropout=0.3) for _ in "ab"])
    assert np.isfinite(dropping(INPUTS, training=True)).all()


@all_layers
def test_gradients_ignore_masked_steps_and_are_finite_if_all_are(layer_class):
    layer = _built(layer_class)
    x = tf.constant(INPUTS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x, mask=MASK)[0] ** 2)
    gradient, *of_weights = tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])
    assert not np.any(gradient.numpy()[~MASK])
    assert np.all(np.abs(gradient.numpy()[MASK]).sum(-1) > 0)
    assert all(np.isfinite(g).all() and np.any(g) for g in of_weights)


@pytest.mark.parametrize(
    "layer_class", [functools.partial(PeepholeLSTM, variant="FGR"), GRU], ids=["LSTM", "GRU"]
)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_training_in_mixed_precision_lowers_the_loss(layer_class, policy):
    model = keras.Sequential(
        [
            keras.Input((None, 4)),
            layer_class(6, dropout=0.1, seed=0, dtype=policy),
            keras.layers.Dense(1, dtype="float32"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.03), "mse")
    target = INPUTS.sum((1, 2))[:, None]
    losses = model.fit(INPUTS, target, epochs=15, batch_size=3, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.7 * losses[0]
    assert all(v.dtype == "float32" for v in model.trainable_variables)


@pytest.mark.parametrize("layer_class", [LSTM, GRU])
def test_regularizers_and_constraints_reach_the_weights(layer_class):
    norm = keras.constraints.UnitNorm()
    layer = layer_class(
        6,
        kernel_regularizer="l2",
        recurrent_regularizer="l2",
        bias_regularizer="l2",
        activity_regularizer="l2",
        kernel_constraint=norm,
        recurrent_constraint=norm,
        bias_constraint=norm,
    )
    layer(INPUTS)
    assert len(layer.losses) == 4
    assert all(v.constraint is norm for v in layer.trainable_variables)


@pytest.mark.parametrize("layer_class", [LSTM, functools.partial(GRU, reset_after=True)])
def test_cudnn_gets_what_it_can_express_and_nothing_else(layer_class, monkeypatch):
    """Stands in for a GPU: that Keras' kernel is called with our arguments, not what it returns."""
    calls = []
    kernel = "lstm" if layer_class is LSTM else "gru"

    def on_gpu(activation, recurrent_activation, unroll, use_bias, reset_after=True):
        return activation is keras.activations.tanh and not unroll and use_bias and reset_after

    def record(sequences, *states, **arguments):
        calls.append(arguments)
        last = states[0] + 1
        return last, tf.expand_dims(last, 1), list(states)

    monkeypatch.setattr(cudnn.backend, "cudnn_ok", on_gpu)
    monkeypatch.setattr(cudnn.backend, kernel, record)
    np.testing.assert_array_equal(layer_class(6)(INPUTS), np.ones((3, 6)))
    layer = layer_class(6, go_backwards=True, dropout=0.5)
    layer(INPUTS, training=True)
    assert calls[1]["go_backwards"]
    assert calls[1]["kernel"] is layer.cell.kernel
    assert not layer.supports_jit
    refused = [
        {"use_cudnn": False},
        {"activation": "relu"},
        {"unroll": True},
        {"use_bias": False},
        {"recurrent_dropout": 0.1},
        {"dtype": "bfloat16"},
        *([{"variant": "CIFG"}, {"peepholes": "full"}] if layer_class is LSTM else []),
        *([{"reset_after": False}] if layer_class is not LSTM else []),
    ]
    for options in refused:
        layer_class(6, **options)(INPUTS)
    layer_class(6)(INPUTS, mask=MASK)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="Received: use_cudnn=True"):
        layer_class(6, use_cudnn=True)(INPUTS, mask=MASK)


BAD_CALLS = {
    "units-0": (lambda layer: layer(0), "units=0"),
    "units-float": (lambda layer: layer(2.5), r"units=2\.5"),
    "units-bool": (lambda layer: layer(True), "units=True"),
    "dropout": (lambda layer: layer(6, dropout=1.0), r"dropout=1\.0"),
    "recurrent-dropout": (lambda layer: layer(6, recurrent_dropout=-1), "recurrent_dropout=-1"),
    "use-cudnn": (lambda layer: layer(6, use_cudnn="yes"), "use_cudnn='yes'"),
    "rank": (lambda layer: layer(6)(INPUTS[0]), r"sequences.shape=\(5, 4\)"),
    "symbolic-rank": (lambda layer: layer(6)(keras.Input((4,))), "sequences.shape="),
    "no-features": (lambda layer: layer(6)(keras.Input((5, None))), "sequences.shape="),
    "stateful": (
        lambda layer: layer(6, stateful=True)(keras.Input((5, 4))),
        r"sequences.shape=\(None, 5, 4\)",
    ),
    "stateful-batch": (lambda layer: _two_batch_sizes(layer(6, stateful=True)), "batch size 2"),
    "unroll": (lambda layer: _call_of_unknown_length(layer(6, unroll=True)), "unroll=True"),
    "symbolic-unroll": (
        lambda layer: layer(6, unroll=True)(keras.Input((None, 4))),
        r"sequences.shape=\(None, None, 4\)",
    ),
    "no-states": (lambda layer: layer(6)(INPUTS, initial_state=[]), "0 tensors"),
    "many-states": (lambda layer: layer(6)(INPUTS, initial_state=[INPUTS[:, 0]] * 4), "4 tensors"),
    "state-size": (lambda layer: _call_with_state(layer, (3, 5)), r"\(3, 5\)"),
    "state-batch": (lambda layer: _call_with_state(layer, (2, 6)), r"\(2, 6\)"),
    "state-rank": (lambda layer: _call_with_state(layer, (6,)), r"\(6,\)"),
    "float-mask": (lambda layer: layer(6)(INPUTS, mask=MASK.astype("float32")), "dtype="),
    "mask-rank": (lambda layer: layer(6)(INPUTS, mask=MASK[..., None]), "mask.shape="),
}


def _two_batch_sizes(layer):
    layer(INPUTS)
    layer(INPUTS[:2])


def _call_of_unknown_length(layer):
    signature = [tf.TensorSpec([None, None, 4])]
    return tf.function(layer, input_signature=signature, autograph=False)(INPUTS)


def _call_with_state(layer, shape):
    layer = layer(6)
    count = len(layer.state_size)
    return layer(INPUTS, initial_state=[np.zeros(shape, "float32")] * count)


@pytest.mark.parametrize("layer_class", [LSTM, GRU])
@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_arguments_are_one_clear_sentence(layer_class, name):
    call, received = BAD_CALLS[name]
    with pytest.raises(ValueError, match=f"(?s)Received: .*{received}"):
        call(layer_class)


@pytest.mark.parametrize("cell_class", [LSTMCell, PeepholeLSTMCell, GRUCell])
def test_a_bad_step_of_a_cell_is_refused_in_a_sentence(cell_class):
    cell = cell_class(6)
    count = len(keras.tree.flatten(cell.state_size))
    state, step = np.zeros((3, 6), "float32"), INPUTS[:, 0]
    bad_calls = {
        r"inputs.shape=\(3, 5, 4\)": (INPUTS, [state] * count),
        r"states of shapes \[\(3, 5\)": (step, [state[:, :5]] * count),
        r"states of shapes \[\(2, 6\)": (step, [state[:2]] * count),
        "states of 3 tensors": (step, [state] * 3),
    }
    for received, arguments in bad_calls.items():
        with pytest.raises(ValueError, match=f"Received: {received}"):
            cell(*arguments)


def test_symbolic_initial_state_of_a_wrong_shape_is_refused():
    states = [keras.Input((6,)), keras.Input((5,))]
    with pytest.raises(ValueError, match="Received: initial_state"):
        LSTM(6)(keras.Input((None, 4)), initial_state=states)
    states[1] = keras.Input((6,))
    assert LSTM(6)(keras.Input((None, 4)), initial_state=states).shape == (None, 6)


@all_layers
def test_only_what_the_scans_compute_is_left_to_them(layer_class):
    assert layer_class(6).has_own_gradient(training=True)
    assert layer_class(6, dropout=0.1).has_own_gradient(training=True)
    assert layer_class(6, recurrent_dropout=0.1).has_own_gradient(training=False)
    refused = [
        {"activation": "relu"},
        {"recurrent_activation": "hard_sigmoid"},
        {"unroll": True},
        {"recurrent_dropout": 0.1},
        {"dropout": 0.1, "implementation": 1, "use_cudnn": False},
    ]
    for options in refused:
        assert not layer_class(6, **options).has_own_gradient(training=True), options


@all_layers
@pytest.mark.parametrize("training", [False, True])
def test_both_paths_give_the_same(layer_class, training):
    layer = _built(layer_class, dropout=0.3, seed=1)
    same = _twin(layer)
    same.has_own_gradient = lambda training: False
    for got, expected in zip(
        layer(INPUTS, mask=MASK, training=training),
        same(INPUTS, mask=MASK, training=training),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("layer_class", [LSTM, GRU])
@pytest.mark.parametrize("training", [False, True])
def test_a_compiled_layer_has_second_derivatives_in_a_graph(layer_class, training):
    layer = layer_class(3)
    inputs = tf.random.stateless_uniform([2, 11, 2], [1, 2])
    layer(inputs)

    def curvature(inputs):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(layer(inputs, training=training) ** 2)
            penalty = tf.reduce_sum(inner.gradient(loss, inputs) ** 2)
        return outer.gradient(penalty, inputs)

    # The graph knows all sizes, so that XLA compiles the scan in it and not eagerly.
    np.testing.assert_allclose(tf.function(curvature)(inputs), curvature(inputs), atol=1e-6)


@pytest.mark.parametrize(("layer_class", "training"), [(LSTM, False), (GRU, True)])
def test_a_tape_for_higher_orders_may_lie_around_a_compiled_graph(layer_class, training):
    layer = layer_class(2)
    inputs = tf.random.stateless_uniform([2, 11, 2], [1, 2])
    layer(inputs)
    in_graph = tf.function(lambda x: layer(x, training=training))

    def derivatives(function):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(function(inputs) ** 2)
            first = inner.gradient(loss, inputs)
            penalty = tf.reduce_sum(first**2)
        return first, outer.gradient(penalty, inputs)

    for found, expected in zip(derivatives(in_graph), derivatives(layer), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
