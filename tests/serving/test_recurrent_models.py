"""The recurrent models exported: GNMT aligns, the encoder-decoder without attention cannot."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.models import GNMT, RNNEncoderDecoder
from keras_attn.recipes import make_recipe
from keras_attn.serving import TextModel, export
from keras_attn.text import CharacterTokenizer

TEXTS = tf.constant(["201", "", "0123"])


def _text_model(model_class, beam_width, **options):
    tokenizer = CharacterTokenizer("0123")
    keras.utils.set_random_seed(1)
    model = model_class(tokenizer.vocabulary_size, tokenizer.vocabulary_size, **options)
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            variable.assign(generator.normal(size=variable.shape, scale=0.8))
    return TextModel(model, tokenizer, tokenizer, 8, 6, beam_width)


@pytest.mark.parametrize(
    ("model_class", "beam_width", "options"),
    [
        (
            RNNEncoderDecoder,
            3,
            {"embedding_dim": 6, "units": 8, "context": "initial_state", "reverse_source": True},
        ),
        (
            GNMT,
            1,
            {
                "embedding_dim": 6, "units": 8, "encoder_layers": 2, "decoder_layers": 3,
                "attention_units": 5, "input_feeding": True, "scheduled_sampling": 0.5,
            },
        ),
    ],
    ids=["one vector, beam", "gnmt, greedy"],
)  # fmt: skip
def test_an_export_answers_as_the_model_does(model_class, beam_width, options, tmp_path):
    text_model = _text_model(model_class, beam_width, **options)
    loaded = tf.saved_model.load(str(export(text_model, tmp_path)))
    aligns = model_class is GNMT
    signatures = {"serving_default", "bounded", "tokens", *(["attention"] if aligns else [])}
    assert set(loaded.signatures) == signatures == set(text_model.exported)
    found, expected = loaded.signatures["serving_default"](text=TEXTS), text_model.translate(TEXTS)
    np.testing.assert_array_equal(found["text"], expected["text"])
    np.testing.assert_allclose(found["score"], expected["score"], atol=1e-5)
    assert np.ptp(found["score"]) > 1e-3  # they were three different sources
    if beam_width > 1:
        np.testing.assert_array_equal(found["texts"], expected["texts"])


def test_no_alignment_is_one_sentence_where_it_is_asked_for_and_where_it_is_drawn(tmp_path):
    text_model = _text_model(RNNEncoderDecoder, 1, embedding_dim=6, units=8, readout_units=5)
    with pytest.raises(ValueError, match=r"aligns nothing.*Received: model=RNNEncoderDecoder"):
        text_model.alignments(["201"])
    files = dict.fromkeys(
        ("source", "target", "validation_source", "validation_target"), str(tmp_path / "text")
    )
    recipe = make_recipe("translation", model="rnn-encoder-decoder", **files)
    with pytest.raises(UserError, match="RNNEncoderDecoder, has no attention: there is no align"):
        recipe.plot(text_model, ["201"])
