"""LSTMParser: its steps, its wiring and where it begins to look."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import LSTMParser

WORDS = [4, 5]
SIZES = {"embedding_dim": 5, "units": 6, "attention_units": 7}


def _model(**options):
    keras.utils.set_random_seed(3)
    model = LSTMParser(20, 10, WORDS, encoder_layers=2, decoder_layers=2, **{**SIZES, **options})
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.embeddings.assign(60.0 * embedding.embeddings)  # else all outputs are nearly 0
    return model


def _inputs(seed=1):
    rng = np.random.default_rng(seed)
    target = rng.integers(3, 10, (3, 7)).astype("int32")
    target[:, 0] = 1
    return {
        "source": rng.integers(3, 20, (3, 6)).astype("int32"),
        "source_lengths": np.array([6, 3, 1], "int32"),
        "target": target,
    }


def _stepped(model, inputs):
    state = model.initial_state(model.encode(inputs))
    logits, alignments = [], []
    for tokens in inputs["target"].T:
        found, state, alignment = model.step(tf.constant(tokens), state)
        logits.append(found)
        alignments.append(alignment)
    return np.stack(logits, axis=1), np.stack(alignments, axis=1)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_say_what_a_call_with_the_whole_target_says(dtype):
    model, inputs = _model(dtype=dtype, reverse_source=True), _inputs()
    called = model(inputs).numpy()
    stepped, _ = _stepped(model, inputs)
    assert called.std() > 1e-2
    np.testing.assert_allclose(stepped, called, atol=1e-5 if dtype == "float32" else 6e-3)


def test_an_untrained_model_looks_at_the_word_that_comes_next():
    model, inputs = LSTMParser(20, 10, WORDS, **SIZES), _inputs()
    inputs["target"][0] = [1, 7, 4, 5, 8, 4, 9]
    _, alignments = _stepped(model, inputs)
    np.testing.assert_array_equal(alignments[0].argmax(axis=-1), [0, 0, 1, 2, 2, 3, 3])
    np.testing.assert_allclose(alignments.sum(axis=-1), 1.0, atol=1e-5)
    assert not alignments[1, :, 3:].any()  # beyond its source


def test_what_a_step_depends_on():
    model, inputs = _model(), _inputs()
    before = model(inputs).numpy()
    later = {**inputs, "target": inputs["target"].copy()}
    later["target"][:, 4] = 3 + (later["target"][:, 4] - 2) % 7
    changed = np.abs(model(later).numpy() - before).max(axis=-1)
    assert not changed[:, :4].any()
    assert changed[:, 4:].all()
    padded = {**inputs, "source": inputs["source"].copy()}
    padded["source"][1, 3:] = 7
    np.testing.assert_allclose(model(padded)[1], before[1], atol=1e-6)
    other = {**inputs, "source": inputs["source"].copy()}
    other["source"][0, 5] = 3 + (other["source"][0, 5] - 2) % 17
    assert np.abs(model(other).numpy()[0] - before[0]).max() > 1e-5


def test_a_reversed_source_is_read_from_its_end_and_annotated_in_its_order():
    straight, reversed_ = _model(), _model(reverse_source=True)
    reversed_.set_weights(straight.get_weights())
    source = np.array([[3, 4, 5, 6]], "int32")
    lengths = np.array([4], "int32")
    found = reversed_.encode({"source": source, "source_lengths": lengths})["annotations"]
    turned = straight.encode({"source": source[:, ::-1], "source_lengths": lengths})["annotations"]
    np.testing.assert_allclose(found[:, ::-1], turned, atol=1e-6)
    assert np.abs(found - straight.encode({"source": source, "source_lengths": lengths})[
        "annotations"]).max() > 1e-4  # fmt: skip


def test_the_number_of_weights_is_that_of_the_equations():
    def lstm(inputs, units=6):
        return 4 * units * (inputs + units + 1)

    expected = (
        (20 + 10) * 5  # embeddings
        + 2 * lstm(5) + lstm(12)  # encoder
        + lstm(5) + lstm(6 + 6) + lstm(6)  # tracker, decoder
        + 7 * (6 + 6)  # attention
        + 6 * 10  # output
    )  # fmt: skip
    assert _model().count_params() == expected


def test_a_file_brings_the_same_model_back(tmp_path):
    model, inputs = _model(dropout=0.2, reverse_source=True), _inputs()
    model.save(tmp_path / "parser.keras")
    again = keras.saving.load_model(tmp_path / "parser.keras")
    assert again.settings == model.settings
    np.testing.assert_allclose(again(inputs), model(inputs), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"units": 0}, "units"),
        ({"dropout": 1.5}, "dropout"),
        ({"word_tokens": []}, "Received: word_tokens="),
        ({"word_tokens": [10]}, "below target_vocabulary_size=10"),
    ],
)
def test_what_makes_no_model_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        LSTMParser(20, 10, **{"word_tokens": WORDS, **SIZES, **options})
