import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import RNNEncoderDecoder

BATCH, SOURCE, TARGET, VOCABULARY, UNITS, READOUT = 3, 6, 5, 11, 8, 6
CONTEXTS = ("every_step", "initial_state")


def _model(**options):
    keras.utils.set_random_seed(1)
    sizes = {
        "source_vocabulary_size": 13, "target_vocabulary_size": VOCABULARY, "embedding_dim": 7,
        "units": UNITS, "readout_units": READOUT, "num_layers": 2,
    }  # fmt: skip
    model = RNNEncoderDecoder(**{**sizes, **options})
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(generator.normal(size=variable.shape, scale=0.6))
    return model


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {
        "source": generator.integers(3, VOCABULARY, (BATCH, SOURCE)).astype("int32"),
        "source_lengths": np.array([6, 3, 1], "int32"),
        "target": generator.integers(3, VOCABULARY, (BATCH, TARGET)).astype("int32"),
    }


def test_weights_are_those_of_the_two_papers():
    gru = lambda inputs: 3 * UNITS * (inputs + UNITS + 1)  # noqa: E731
    lstm = lambda inputs: 4 * UNITS * (inputs + UNITS + 1)  # noqa: E731
    words = (13 + VOCABULARY) * 7
    cho = (
        words
        + gru(7) + gru(UNITS)
        + 3 * UNITS * (UNITS + 1)  # V, V_1, V_2
        + gru(7 + UNITS) + gru(UNITS + UNITS)
        + 2 * READOUT * (UNITS + 7 + UNITS + 1)  # O_s, O_y, O_c
        + VOCABULARY * READOUT
    )  # fmt: skip
    assert _model().count_params() == cho
    sutskever = words + 2 * (lstm(7) + lstm(UNITS)) + VOCABULARY * UNITS
    assert _model(context="initial_state", cell="lstm").count_params() == sutskever
    with_peepholes = _model(context="initial_state", cell="lstm", peepholes="diagonal")
    assert with_peepholes.count_params() == sutskever + 4 * 3 * UNITS
    coupled = _model(context="initial_state", cell="lstm", variant="CIFG")
    assert coupled.count_params() == words + 2 * 3 * (lstm(7) + lstm(UNITS)) // 4 + (
        VOCABULARY * UNITS
    )


@pytest.mark.parametrize("seen_by", ["first states", "lower layer", "upper layer", "output"])
def test_every_state_step_layer_and_the_output_read_the_vector(seen_by, inputs):
    model = _model()
    bridge = model.bridge
    readers = {
        "lower layer": model.decoder[0].cell.kernel,
        "upper layer": model.decoder[1].cell.kernel,
        "output": bridge._readout.kernel,
    }
    for name, kernel in readers.items():
        if name != seen_by:  # the last rows are those of the vector
            rows = kernel.numpy().copy()
            rows[-UNITS:] = 0
            kernel.assign(rows)
    if seen_by != "first states":
        for layer in bridge._first:
            layer.set_weights([np.zeros_like(weight) for weight in layer.get_weights()])
    memory = model.encode(inputs)
    features = model.at_once(inputs["target"], memory)
    changed = model.at_once(inputs["target"], {"summary": -memory["summary"]})
    assert np.abs(features - changed).max(axis=(0, 2)).min() > 1e-4
    no_reader = model.decoder[0].cell.kernel if seen_by == "lower layer" else readers.get(seen_by)
    if no_reader is not None:
        rows = no_reader.numpy().copy()
        rows[-UNITS:] = 0
        no_reader.assign(rows)
        blind = [
            model.at_once(inputs["target"], {"summary": m})
            for m in (memory["summary"], -memory["summary"])
        ]
        np.testing.assert_array_equal(*blind)


def test_only_the_first_states_are_handed_over_layer_by_layer(inputs):
    model = _model(context="initial_state", cell="lstm")
    memory = model.encode(inputs)
    assert len(memory["states"]) == 2
    x, mask = (
        model.source_embedding(inputs["source"]),
        tf.sequence_mask(inputs["source_lengths"], SOURCE),
    )
    for layer, states, first in zip(
        model.encoder, memory["states"], model.start(memory), strict=True
    ):
        x, *last = layer(x, mask=mask)
        for state, expected, begun in zip(states, last, first, strict=True):
            np.testing.assert_allclose(state, expected, atol=1e-6)
            np.testing.assert_array_equal(begun, state)
    # The decoder is a plain language model from there on, and the top layer makes the logits.
    x = model.target_embedding(inputs["target"])
    for layer, first in zip(model.decoder, memory["states"], strict=True):
        x = layer(x, initial_state=first)
    expected = tf.matmul(x, model.output_projection.kernel)
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)
    for number, state in itertools.product(range(2), range(2)):
        spoilt = [[*states] for states in memory["states"]]
        spoilt[number][state] = spoilt[number][state] + 1.0
        changed = model.at_once(inputs["target"], {"states": spoilt})
        assert np.abs(changed - model.features(inputs))[:, 0].max() > 1e-3


def test_the_vector_is_the_top_layers_last_state(inputs):
    model = _model()
    x, mask = (
        model.source_embedding(inputs["source"]),
        tf.sequence_mask(inputs["source_lengths"], SOURCE),
    )
    for layer in model.encoder:
        x, last = layer(x, mask=mask)
    kernel, bias = model.bridge._summary.get_weights()
    summary = model.encode(inputs)["summary"]
    np.testing.assert_allclose(summary, np.tanh(last @ kernel + bias), atol=1e-6)
    for number, states in enumerate(model.start({"summary": summary})):
        kernel, bias = model.bridge._first[number].get_weights()
        np.testing.assert_allclose(states[0], np.tanh(summary @ kernel + bias), atol=1e-6)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_reversed_source_is_read_from_its_last_token_whatever_its_padding(context, inputs):
    forward, backward = _model(context=context), _model(context=context, reverse_source=True)
    backward.set_weights(forward.get_weights())
    turned = inputs["source"].copy()
    for row, length in enumerate(inputs["source_lengths"]):
        turned[row, :length] = turned[row, :length][::-1]
    read = forward({**inputs, "source": turned})
    np.testing.assert_allclose(backward(inputs), read, atol=1e-5)
    assert np.abs(forward(inputs) - read).max() > 1e-2


OPTIONS = {
    "cho": {},
    "sutskever": {"context": "initial_state", "cell": "lstm", "reverse_source": True},
    "lstm every step": {"cell": "lstm", "variant": "FGR", "num_layers": 3},
    "forms": {"context": "initial_state", "cell": "lstm", "variant": "FGR", "peepholes": "full"},
    "shared": {
        "share_embeddings": True, "source_vocabulary_size": VOCABULARY,
        "tie_embeddings": True, "embedding_dim": READOUT, "scheduled_sampling": 0.5,
    },
    "tied": {"context": "initial_state", "tie_embeddings": True, "embedding_dim": UNITS},
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_stepping_equals_teacher_forcing_and_saving_keeps_both(option, inputs, tmp_path):
    model = _model(**OPTIONS[option], dropout=0.3)
    logits = model(inputs)
    state = model.initial_state(model.encode(inputs))
    for t in range(TARGET):
        step_logits, state, alignment = model.step(inputs["target"][:, t], state)
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        assert alignment is None
    np.testing.assert_allclose(
        tf.matmul(model.features(inputs), model.output_table, transpose_b=True), logits, atol=1e-5
    )
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(reloaded(inputs), logits)
    assert np.abs(model(inputs, training=True) - logits).max() > 1e-2


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_lies_beyond_the_source_lengths_is_never_read(context, inputs):
    model = _model(context=context, reverse_source=True)
    spoilt = inputs["source"].copy()
    spoilt[np.arange(SOURCE) >= inputs["source_lengths"][:, None]] = 0
    longer = np.pad(spoilt, [(0, 0), (0, 4)])
    for source in (spoilt, longer):
        np.testing.assert_allclose(model({**inputs, "source": source}), model(inputs), atol=1e-6)


def test_graph_xla_and_odd_sizes(inputs):
    model = _model()
    compiled = tf.function(lambda inputs: model(inputs), jit_compile=True)
    np.testing.assert_allclose(compiled(inputs), model(inputs), atol=1e-5)
    run = tf.function(lambda inputs: model(inputs), reduce_retracing=True)
    for batch, source, target in ((0, 3, 2), (2, 1, 1)):
        odd = {
            "source": tf.zeros([batch, source], tf.int32),
            "source_lengths": tf.ones([batch], tf.int32),
            "target": tf.zeros([batch, target], tf.int32),
        }
        assert run(odd).shape == (batch, target, VOCABULARY)


@pytest.mark.parametrize("context", CONTEXTS)
def test_bfloat16_is_near_float32_and_gives_float32_logits(context, inputs):
    model, low = _model(context=context), _model(context=context, dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    assert low(inputs).dtype == tf.float32
    np.testing.assert_allclose(low(inputs), model(inputs), atol=0.15)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"context": "attention"}, "context='attention'"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"peepholes": "full"}, "cell='gru', variant=None, peepholes='full'"),
        ({"tie_embeddings": True}, "embedding_dim=7, readout_units=6"),
        ({"tie_embeddings": True, "context": "initial_state"}, "embedding_dim=7, units=8"),
        ({"share_embeddings": True}, "source_vocabulary_size=13, target_vocabulary_size=11"),
        ({"scheduled_sampling": True}, "scheduled_sampling=True"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        _model(**options)
