"""The LSTM layers against the reference numbers, Keras and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gradient_check import check_gradients
from reference import cases

from keras_attn.layers import LSTM, LSTMCell, PeepholeLSTM, PeepholeLSTMCell
from keras_attn.ops.recurrent import LSTM_BLOCKS, LSTMForm

VARIANTS = [variant for variant in LSTM_BLOCKS if variant]
BLOCKS = ("input", "forget", "candidate", "output")


def _case_layer(case, dtype, **kwargs):
    """The layer of a reference case, with the blocks of the gates it lacks left out."""
    form = LSTMForm(case.get("peepholes"), case.get("output_gate_sees", "new"), case.get("variant"))
    layer = LSTM(len(case["initial_h"][0]), **form._asdict(), dtype=dtype, **kwargs)
    layer.build(np.shape(case["inputs"]))

    def keep(weight, names, kept, axis):
        parts = np.split(np.array(weight), len(names), axis)
        return np.concatenate([p for p, n in zip(parts, names, strict=True) if n in kept], axis)

    weights = [keep(case[name], BLOCKS, form.blocks, -1) for name in ("kernel", "recurrent_kernel")]
    weights.append(keep(case["bias"], BLOCKS, form.blocks, -1))
    if form.peepholes:
        axis = 0 if form.peepholes == "diagonal" else -1
        weights.append(keep(case["P"], ("input", "forget", "output"), form.gates, axis))
    if form.variant == "FGR":
        weights.append(np.array(case["G"]))
    layer.set_weights(weights)
    return layer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", cases("recurrent", "lstm"))
def test_reference_numbers(case, dtype):
    layer = _case_layer(case, dtype, return_sequences=True, return_state=True)
    initial = [np.array(case[name], dtype) for name in ("initial_h", "initial_c")]
    sequence, h, c = layer(np.array(case["inputs"], dtype), initial_state=initial)[:3]
    for name, got in (("sequence", sequence), ("h", h), ("c", c)):
        np.testing.assert_allclose(got, case["expect"][name], atol=1e-6, err_msg=name)


INPUTS = np.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
OPTIONS = {
    "plain": {},
    "backwards": {"go_backwards": True},
    "unrolled": {"unroll": True},
    "no-bias": {"use_bias": False},
    "activations": {"activation": "relu", "recurrent_activation": "hard_sigmoid"},
    "dropout": {"dropout": 0.3},
    "recurrent-dropout": {"recurrent_dropout": 0.4},
    "both-dropouts": {"dropout": 0.3, "recurrent_dropout": 0.4},
    "dropout-by-gate": {"dropout": 0.3, "implementation": 1, "use_cudnn": False},
    "initializers": {
        "kernel_initializer": keras.initializers.HeNormal(seed=1),
        "recurrent_initializer": keras.initializers.RandomNormal(seed=2),
        "bias_initializer": keras.initializers.RandomNormal(seed=3),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("return_sequences", [False, True])
def test_equals_keras_with_its_weights_and_seeds(name, return_sequences):
    options = {**OPTIONS[name], "return_sequences": return_sequences, "return_state": True}
    ours, theirs = LSTM(6, seed=5, **options), keras.layers.LSTM(6, seed=5, **options)
    ours.build(INPUTS.shape)
    theirs.build(INPUTS.shape)
    if name == "initializers":
        for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    ours.set_weights(theirs.get_weights())
    states = [INPUTS[:, 0, :1] * np.ones((1, 6), "float32")] * 2
    for _ in range(2):  # the second call draws the next dropout masks
        got = ours(INPUTS, initial_state=states, training=True)
        expected = theirs(INPUTS, initial_state=states, training=True)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
    theirs.set_weights([w + 1 for w in ours.get_weights()])


def test_equals_keras_under_a_mask_where_keras_is_right():
    mask = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], bool)
    ours = LSTM(6, return_sequences=True, return_state=True)
    theirs = keras.layers.LSTM(6, return_sequences=True, return_state=True)
    ours.build(INPUTS.shape)
    theirs.build(INPUTS.shape)
    ours.set_weights(theirs.get_weights())
    for a, b in zip(ours(INPUTS, mask=mask), theirs(INPUTS, mask=mask), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_config_of_keras_makes_our_layer():
    config = keras.layers.LSTM(
        6, go_backwards=True, dropout=0.2, kernel_regularizer="l2"
    ).get_config()
    layer = LSTM.from_config(config)
    assert {key: layer.get_config()[key] for key in config} == config


@pytest.mark.parametrize("variant", [None, *VARIANTS])
@pytest.mark.parametrize("peepholes", [None, "diagonal", "full"])
def test_weights_have_the_shapes_of_the_variant(variant, peepholes):
    layer = LSTM(2, variant=variant, peepholes=peepholes)
    layer.build((None, None, 3))
    blocks = 3 if variant in ("NIG", "NFG", "NOG", "CIFG") else 4
    gates = blocks - 1
    shapes = {"kernel": (3, 2 * blocks), "recurrent_kernel": (2, 2 * blocks), "bias": (2 * blocks,)}
    if peepholes:
        shapes["peephole_kernel"] = (gates, 2) if peepholes == "diagonal" else (2, 2 * gates)
    if variant == "FGR":
        shapes["gate_recurrent_kernel"] = (6, 6)
    assert {v.name: tuple(v.shape) for v in layer.weights} == shapes
    assert [v.name for v in layer.weights] == list(shapes)


@pytest.mark.parametrize(
    ("variant", "bias"),
    [
        (None, [0, 0, 1, 1, 0, 0, 0, 0]),
        ("NIG", [1, 1, 0, 0, 0, 0]),
        ("NOG", [0, 0, 1, 1, 0, 0]),
        ("NFG", [0] * 6),
        ("CIFG", [0] * 6),
    ],
)
def test_forget_bias_starts_at_one_where_there_is_a_forget_gate(variant, bias):
    layer = LSTM(2, variant=variant)
    layer.build((None, None, 3))
    np.testing.assert_array_equal(layer.cell.bias, bias)


@pytest.mark.parametrize("peepholes", ["diagonal", "full"])
def test_new_peepholes_start_as_none(peepholes):
    seeded = {"kernel_initializer": keras.initializers.GlorotUniform(seed=1)}
    with_them = PeepholeLSTM(6, peepholes=peepholes, recurrent_initializer="identity", **seeded)
    without = LSTM(6, recurrent_initializer="identity", **seeded)
    np.testing.assert_allclose(with_them(INPUTS), without(INPUTS), atol=1e-7)


FORMS = [
    LSTMForm(),
    LSTMForm("diagonal", "previous"),
    LSTMForm("full", "new"),
    LSTMForm("full", "previous"),
    *(LSTMForm("diagonal", "new", variant) for variant in VARIANTS),
    LSTMForm("full", "new", "CIFG"),
    LSTMForm("full", "new", "NOG"),
    LSTMForm("full", "previous", "FGR"),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_gradients_equal_finite_differences(form):
    options = {"return_sequences": True, "return_state": True, "dtype": "float64"}
    mask = np.array([[1, 0, 1], [1, 1, 1]], bool)
    check_gradients(LSTM(2, **form._asdict(), **options), INPUTS[:2, :3].astype("float64"), mask)


def test_fgr_takes_its_third_state_or_starts_it_at_zero():
    layer = LSTM(6, variant="FGR", return_state=True)
    h = np.random.default_rng(1).standard_normal((3, 6)).astype("float32")
    zero = np.zeros((3, 18), "float32")
    for a, b in zip(
        layer(INPUTS, initial_state=[h, h]), layer(INPUTS, initial_state=[h, h, zero]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    gates = layer(INPUTS)[3]
    assert gates.shape == (3, 18)
    assert np.all((gates > 0) & (gates < 1))
    assert not np.allclose(layer(INPUTS, initial_state=[h, h, zero + 1])[0], layer(INPUTS)[0])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_dropout_by_gate_counts_the_blocks_of_the_variant(form):
    layer = LSTM(6, **form._asdict(), dropout=0.5, recurrent_dropout=0.5, seed=1)
    dropped = layer(INPUTS, training=True)
    assert np.isfinite(dropped).all()
    assert not np.allclose(dropped, layer(INPUTS))


BAD_FORMS = [
    ({"peepholes": "diag"}, "peepholes='diag'"),
    ({"peepholes": True}, "peepholes=True"),
    ({"variant": "LSTM"}, "variant='LSTM'"),
    ({"variant": "cifg"}, "variant='cifg'"),
    ({"peepholes": "full", "output_gate_sees": "old"}, "output_gate_sees='old'"),
    ({"output_gate_sees": "previous"}, "output_gate_sees='previous' and peepholes=None"),
    (
        {"peepholes": "full", "output_gate_sees": "previous", "variant": "NOG"},
        "output_gate_sees='previous' and variant='NOG'",
    ),
]


@pytest.mark.parametrize(("options", "received"), BAD_FORMS)
@pytest.mark.parametrize("made", [LSTM, LSTMCell])
def test_forms_that_do_not_exist_are_refused(made, options, received):
    with pytest.raises(ValueError, match=f"Received: {received}$"):
        made(6, **options)


@pytest.mark.parametrize("made", [PeepholeLSTM, PeepholeLSTMCell])
def test_peephole_lstm_without_peepholes_is_refused(made):
    assert made(6).peepholes == "diagonal"
    with pytest.raises(ValueError, match=r"Received: peepholes=None$"):
        made(6, peepholes=None)


@pytest.mark.parametrize("options", [{}, {"peepholes": "diagonal", "variant": "CIFG"}])
@pytest.mark.parametrize("go_backwards", [False, True])
def test_a_large_layer_computes_the_same_by_its_steps_and_by_the_scan(options, go_backwards):
    """Above 256 units inference takes the steps of the cell, training the scan."""
    layer = LSTM(257, return_sequences=True, go_backwards=go_backwards, **options)
    mask = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
    plain = layer(INPUTS, mask=mask)
    with tf.GradientTape():
        by_scan = layer(INPUTS, mask=mask)
    np.testing.assert_allclose(plain, by_scan, atol=1e-6)
    np.testing.assert_allclose(tf.function(layer)(INPUTS, mask=mask), by_scan, atol=1e-6)
