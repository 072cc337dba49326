import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import greedy_search
from keras_attn.models import RNNSearch

BATCH, SOURCE, TARGET, VOCABULARY = 3, 6, 5, 11


OPTIONS = {
    "paper": {},
    "lstm": {"cell": "lstm"},
    "tied": {"tie_embeddings": True, "embedding_dim": 9},
    "shared": {"share_embeddings": True, "source_vocabulary_size": VOCABULARY},
}


@pytest.fixture(scope="module")
def model():
    return _model()


def _model(**options):
    keras.utils.set_random_seed(1)
    sizes = {
        "source_vocabulary_size": 13, "target_vocabulary_size": VOCABULARY, "embedding_dim": 8,
        "encoder_units": 6, "decoder_units": 10, "attention_units": 7, "readout_units": 9,
    }  # fmt: skip
    return RNNSearch(**{**sizes, "dropout": 0.4, **options})


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    return {
        "source": generator.integers(3, VOCABULARY, (BATCH, SOURCE)).astype("int32"),
        "source_lengths": np.array([6, 3, 1], "int32"),
        "target": generator.integers(3, VOCABULARY, (BATCH, TARGET)).astype("int32"),
    }


@pytest.mark.parametrize("option", OPTIONS)
def test_stepping_with_a_state_equals_teacher_forcing(option, inputs):
    model = _model(**OPTIONS[option])
    logits = model(inputs)
    state = model.initial_state(model.encode(inputs))
    for t in range(TARGET):
        step_logits, state, alignment = model.step(inputs["target"][:, t], state)
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        np.testing.assert_allclose(tf.reduce_sum(alignment, -1), 1, atol=1e-5)
        beyond = np.arange(SOURCE) >= inputs["source_lengths"][:, None]
        np.testing.assert_array_equal(alignment.numpy()[beyond], 0)


def test_what_lies_beyond_the_source_lengths_is_never_read(model, inputs):
    spoilt = inputs["source"].copy()
    spoilt[np.arange(SOURCE) >= inputs["source_lengths"][:, None]] = 0
    longer = np.pad(spoilt, [(0, 0), (0, 4)])
    expected = model(inputs)
    for source in (spoilt, longer):
        np.testing.assert_allclose(model({**inputs, "source": source}), expected, atol=1e-6)


def test_an_example_alone_gets_what_it_gets_in_a_batch(model, inputs):
    together = model(inputs)
    for row in range(BATCH):
        alone = {name: value[row : row + 1] for name, value in inputs.items()}
        length = int(inputs["source_lengths"][row])
        alone["source"] = alone["source"][:, :length]
        np.testing.assert_allclose(model(alone)[0], together[row], atol=1e-5)


def test_a_later_target_token_changes_no_earlier_prediction(model, inputs):
    changed = inputs["target"].copy()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    before, after = model(inputs), model({**inputs, "target": changed})
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3:] - after[:, 3:]).min(axis=(1, 2)).max() > 0


def test_weights_are_those_of_the_paper(model):
    embedding, encoder, decoder, attention, readout = 8, 6, 10, 7, 9
    gru = lambda inputs, units: 3 * units * (inputs + units + 1)  # noqa: E731
    expected = (
        (13 + VOCABULARY) * embedding
        + 2 * gru(embedding, encoder)
        + encoder * decoder + decoder  # W_s
        + gru(embedding + 2 * encoder, decoder)
        + attention * (decoder + 2 * encoder + 1)  # W_a, U_a, v
        + 2 * readout * (decoder + embedding + 2 * encoder + 1)  # U_o, V_o, C_o
        + VOCABULARY * readout
    )  # fmt: skip
    assert model.count_params() == expected


def test_the_first_state_is_read_from_the_backward_state_at_the_first_word(model, inputs):
    memory = model.encode(inputs)
    backward = memory["annotations"][:, 0, 6:]
    kernel, bias = model.first_state.get_weights()
    expected = np.tanh(backward @ kernel + bias)
    np.testing.assert_allclose(model.initial_state(memory)["decoder"][0], expected, atol=1e-6)


def test_dropout_acts_in_training_only(model, inputs):
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 1e-3


@pytest.mark.parametrize("option", OPTIONS)
def test_saving_keeps_every_output(option, inputs, tmp_path):
    model = _model(**OPTIONS[option])
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"RNNSearch": RNNSearch}
    )
    np.testing.assert_array_equal(reloaded(inputs), model(inputs))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager(model, inputs, jit_compile):
    run = tf.function(lambda inputs: model(inputs), jit_compile=jit_compile)
    np.testing.assert_allclose(run(inputs), model(inputs), atol=1e-5)


@pytest.mark.parametrize(("batch", "source", "target"), [(0, 3, 2), (2, 1, 1), (0, 1, 1)])
def test_sizes_of_zero_and_one_keep_their_shapes(model, batch, source, target):
    inputs = {
        "source": tf.zeros([batch, source], tf.int32),
        "source_lengths": tf.ones([batch], tf.int32),
        "target": tf.zeros([batch, target], tf.int32),
    }
    assert tf.function(model)(inputs).shape == (batch, target, VOCABULARY)


def test_bfloat16_is_near_float32_and_gives_float32_logits(model, inputs):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        low = RNNSearch(**model.settings)
    finally:
        keras.config.set_dtype_policy("float32")
    low.set_weights(model.get_weights())
    logits = low(inputs)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, model(inputs), atol=0.02)


def test_greedy_search_is_repeated_argmax_of_teacher_forcing(model, inputs):
    memory = model.encode(inputs)
    found = greedy_search(model.step, model.initial_state(memory), BATCH, 1, 2, TARGET)
    tokens = np.full((BATCH, TARGET), 1, "int32")
    for t in range(TARGET):
        best = np.argmax(model({**inputs, "target": tokens})[:, t], axis=-1)
        if t + 1 < TARGET:
            tokens[:, t + 1] = best
        running = t < found.lengths[:, 0].numpy()
        np.testing.assert_array_equal(found.tokens[:, 0, t].numpy()[running], best[running])


@pytest.mark.parametrize("option", OPTIONS)
def test_the_output_table_makes_the_logits_of_the_features(option, inputs):
    model = _model(**OPTIONS[option])
    logits = tf.matmul(model.features(inputs), model.output_table, transpose_b=True)
    np.testing.assert_allclose(logits, model(inputs), atol=1e-6)


def test_tied_and_shared_embeddings_are_stored_once():
    untied, tied = _model(embedding_dim=9), _model(**OPTIONS["tied"])
    assert untied.count_params() - tied.count_params() == 9 * VOCABULARY
    apart, shared = _model(source_vocabulary_size=VOCABULARY), _model(**OPTIONS["shared"])
    assert apart.count_params() - shared.count_params() == 8 * VOCABULARY


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"cell": "rnn"}, "cell='rnn'"),
        ({"tie_embeddings": True}, "embedding_dim=8, readout_units=9"),
        ({"share_embeddings": True}, "source_vocabulary_size=13, target_vocabulary_size=11"),
        ({"encoder_units": 0}, "encoder_units=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        _model(**options)
