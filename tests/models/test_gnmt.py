import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search
from keras_attn.models import GNMT

BATCH, SOURCE, TARGET, VOCABULARY, UNITS = 3, 6, 5, 11, 8


def _model(**options):
    keras.utils.set_random_seed(1)
    sizes = {
        "source_vocabulary_size": 13, "target_vocabulary_size": VOCABULARY, "embedding_dim": 7,
        "units": UNITS, "encoder_layers": 4, "decoder_layers": 4, "attention_units": 5,
    }  # fmt: skip
    model = GNMT(**{**sizes, **options})
    # Drawn large, for a signal halves and halves on its way through many small layers.
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(generator.normal(size=variable.shape, scale=0.6))
    return model


@pytest.fixture(scope="module")
def model():
    return _model()


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {
        "source": generator.integers(3, VOCABULARY, (BATCH, SOURCE)).astype("int32"),
        "source_lengths": np.array([6, 3, 1], "int32"),
        "target": generator.integers(3, VOCABULARY, (BATCH, TARGET)).astype("int32"),
    }


def test_weights_are_those_of_the_paper_at_any_depth_and_of_every_cell(model):
    lstm = lambda inputs: 4 * UNITS * (inputs + UNITS + 1)  # noqa: E731
    outside = (13 + VOCABULARY) * 7 + VOCABULARY * UNITS
    attention = 5 * (UNITS + UNITS + 1)
    encoder = 2 * lstm(7) + lstm(2 * UNITS) + 2 * lstm(UNITS)
    decoder = lstm(7 + UNITS) + 3 * lstm(UNITS + UNITS)
    assert model.count_params() == outside + attention + encoder + decoder
    shallow = _model(encoder_layers=1, decoder_layers=1, cell="gru")
    gru = lambda inputs: 3 * UNITS * (inputs + UNITS + 1)  # noqa: E731
    attention = 5 * (UNITS + 2 * UNITS + 1)
    assert shallow.count_params() == outside + attention + 2 * gru(7) + gru(7 + 2 * UNITS)
    peepholes = _model(peepholes="diagonal")
    assert peepholes.count_params() - model.count_params() == (5 + 4) * 3 * UNITS
    assert len(GNMT(5, 5, 4, 4, attention_units=4).encoder) == 8


def _silenced(layer):
    """A layer that outputs zeros: an LSTM whose candidate is 0 has a cell state of 0."""
    layer.set_weights([np.zeros_like(weight) for weight in layer.get_weights()])


def test_residuals_begin_at_the_third_layer_of_both_sides(inputs):
    model = _model()
    for layer in (*model.encoder[2:], *model.upper[1:]):
        _silenced(layer)
    annotations = model.encode(inputs)["annotations"]
    second = _of_layers(model.encoder[:2], model, inputs)
    np.testing.assert_allclose(annotations, second, atol=1e-6)
    assert np.abs(annotations).max() > 1e-2
    # With the layers above silent, the second one's outputs are the features.
    outputs = model.bottom(
        model.target_embedding(inputs["target"]),
        annotations,
        memory_mask=model.encode(inputs)["mask"],
    )
    np.testing.assert_allclose(model.features(inputs), model.upper[0](outputs), atol=1e-6)
    # The second layer itself has none: silent, it lets nothing through.
    _silenced(model.upper[0])
    np.testing.assert_array_equal(model.features(inputs), 0)
    _silenced(model.encoder[1])
    np.testing.assert_array_equal(model.encode(inputs)["annotations"], 0)


def test_without_residuals_a_silent_layer_lets_nothing_through(inputs):
    model = _model(residual=False)
    _silenced(model.upper[1])
    assert np.abs(model.features(inputs)).max() > 1e-2  # the context still reaches the next
    _silenced(model.upper[2])
    np.testing.assert_array_equal(model.features(inputs), 0)
    _silenced(model.encoder[3])
    np.testing.assert_array_equal(model.encode(inputs)["annotations"], 0)


def _of_layers(layers, model, inputs):
    x, mask = model.source_embedding(inputs["source"]), model.encode(inputs)["mask"]
    for layer in layers:
        x = layer(x, mask=mask)
    return x


def test_the_first_encoder_layer_reads_both_ways_and_the_others_forwards(model, inputs):
    changed = inputs["source"].copy()
    changed[0, 4] = changed[0, 4] % 8 + 3
    assert (changed != inputs["source"]).any()
    masked = {**inputs, "source": changed}
    first, other = (_of_layers(model.encoder[:1], model, given)[0] for given in (inputs, masked))
    np.testing.assert_array_equal(first[:4, :UNITS], other[:4, :UNITS])
    assert np.abs(first[:4, UNITS:] - other[:4, UNITS:]).max(axis=1).min() > 1e-4
    x = tf.random.stateless_normal([1, SOURCE, 2 * UNITS], [1, 2])
    spoilt = tf.concat([x[:, :4], 1.0 - x[:, 4:]], axis=1)
    np.testing.assert_array_equal(model.encoder[1](x)[:, :4], model.encoder[1](spoilt)[:, :4])


def test_the_query_is_what_the_bottom_layer_wrote_at_the_step_before(model, inputs):
    memory = model.encode(inputs)
    state = model.start(memory)
    attention = model.bottom.cell.attention
    for t in range(3):
        below = state["bottom"][0]  # s^1_{t-1}, 0 before the first step
        _, expected = attention.attend(below, memory["keys"], memory["annotations"], memory["mask"])
        _, alignment, state = model.advance(inputs["target"][:, t], state, memory, False)
        np.testing.assert_allclose(alignment, expected, atol=1e-6)
    np.testing.assert_array_equal(model.start(memory)["bottom"][0], 0)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_layer_of_the_decoder_reads_the_same_context(number, inputs):
    model = _model()
    memory = model.encode(inputs)
    kernels = [model.bottom.cell.cell.kernel, *(layer.cell.kernel for layer in model.upper)]
    # Only the rows of layer `number` for the context see the source: the others' are 0.
    for each, kernel in enumerate(kernels, start=1):
        rows = kernel.numpy().copy()
        if each != number:
            rows[-UNITS:] = 0
        kernel.assign(rows)
    spoilt = {**memory, "annotations": memory["annotations"] + 1.0}  # keys, and so weights, stay
    one, other = (_states(model, inputs, given) for given in (memory, spoilt))
    changes = [np.abs(a - b).max() for a, b in zip(one, other, strict=True)]
    assert max(changes[: number - 1], default=0) == 0
    assert min(changes[number - 1 :]) > 1e-5


def _states(model, inputs, memory):
    """The hidden states of all layers after the first token."""
    _, _, state = model.advance(inputs["target"][:, 0], model.start(memory), memory, False)
    return [state["bottom"][0], *(states[0] for states in state["upper"])]


OPTIONS = {
    "paper": {},
    "gru": {"cell": "gru", "encoder_layers": 1, "decoder_layers": 1},
    "forms": {"variant": "CIFG", "peepholes": "full", "encoder_layers": 2, "decoder_layers": 3},
    "fed": {"input_feeding": True, "variant": "FGR"},
    "shared": {
        "share_embeddings": True, "source_vocabulary_size": VOCABULARY,
        "tie_embeddings": True, "embedding_dim": UNITS, "scheduled_sampling": 0.5,
    },
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_stepping_equals_teacher_forcing_and_saving_keeps_both(option, inputs, tmp_path):
    model = _model(**OPTIONS[option], dropout=0.3)
    logits = model(inputs)
    state = model.initial_state(model.encode(inputs))
    for t in range(TARGET):
        step_logits, state, alignment = model.step(inputs["target"][:, t], state)
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        beyond = np.arange(SOURCE) >= inputs["source_lengths"][:, None]
        np.testing.assert_array_equal(alignment.numpy()[beyond], 0)
    np.testing.assert_allclose(
        tf.matmul(model.features(inputs), model.output_table, transpose_b=True), logits, atol=1e-6
    )
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(reloaded(inputs), logits)


def test_what_lies_beyond_the_source_lengths_is_never_read(model, inputs):
    spoilt = inputs["source"].copy()
    spoilt[np.arange(SOURCE) >= inputs["source_lengths"][:, None]] = 0
    longer = np.pad(spoilt, [(0, 0), (0, 4)])
    for source in (spoilt, longer):
        np.testing.assert_allclose(model({**inputs, "source": source}), model(inputs), atol=1e-6)


def test_xla_equals_eager(inputs):
    model = _model(encoder_layers=1, decoder_layers=3)
    run = tf.function(lambda inputs: model(inputs), jit_compile=True)
    np.testing.assert_allclose(run(inputs), model(inputs), atol=1e-5)


@pytest.mark.parametrize(("batch", "source", "target"), [(0, 3, 2), (2, 1, 1)])
def test_sizes_of_zero_and_one_keep_their_shapes(batch, source, target):
    model = _model(encoder_layers=2, decoder_layers=2)
    inputs = {
        "source": tf.zeros([batch, source], tf.int32),
        "source_lengths": tf.ones([batch], tf.int32),
        "target": tf.zeros([batch, target], tf.int32),
    }
    assert tf.function(model)(inputs).shape == (batch, target, VOCABULARY)


def test_bfloat16_is_near_float32_and_gives_float32_logits(model, inputs):
    low = _model(dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    assert low(inputs).dtype == tf.float32
    np.testing.assert_allclose(low(inputs), model(inputs), atol=0.1)
    assert np.abs(model(inputs)).max() > 1


def test_a_beam_searches_with_the_penalties_of_the_paper(model, inputs):
    memory = model.encode(inputs)
    found = beam_search(
        model.step,
        model.initial_state(memory),
        BATCH,
        1,
        2,
        TARGET,
        beam_width=3,
        length_penalty=0.6,
        coverage_penalty=0.2,
    )
    assert found.attention.shape == (BATCH, 3, TARGET, SOURCE)
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"encoder_layers": 0}, "encoder_layers=0"),
        ({"cell": "rnn"}, "cell='rnn'"),
        ({"cell": "gru", "variant": "CIFG"}, "cell='gru', variant='CIFG', peepholes=None"),
        ({"variant": "NAG"}, "variant='NAG'"),
        ({"tie_embeddings": True}, "embedding_dim=7, units=8"),
        ({"scheduled_sampling": 1.5}, "scheduled_sampling=1.5"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        _model(**options)
