import numpy as np
import pytest
import tensorflow as tf
from road import ODD_TEXTS, as_bytes

from keras_attn.models import Transformer
from keras_attn.serving import TextModel
from keras_attn.text import CharacterTokenizer

LONGEST_ANSWER = 11


@pytest.fixture(scope="module")
def reloaded(dates_base_path):
    return tf.saved_model.load(str(dates_base_path / "1"))


@pytest.mark.parametrize("signature", ["serving_default", "attention"])
@pytest.mark.parametrize(
    "texts", [[], [""], ["3/4/07"], ODD_TEXTS], ids=["none", "empty", "one", "odd"]
)
def test_every_batch_gets_an_answer_of_the_right_shape(reloaded, signature, texts):
    outputs = reloaded.signatures[signature](text=tf.constant(as_bytes(texts), tf.string))
    for name, value in outputs.items():
        assert value.shape[0] == len(texts), name
        assert value.dtype in (tf.float32, tf.int32, tf.string), name


@pytest.mark.parametrize("text", ODD_TEXTS, ids=[repr(text)[:14] for text in ODD_TEXTS])
def test_an_odd_text_gets_alone_what_it_gets_in_a_batch(dates_text_model, text):
    alone = dates_text_model.translate(tf.constant(as_bytes([text]), tf.string))
    together = dates_text_model.translate(tf.constant(as_bytes([text, "3. März 1998"]), tf.string))
    assert alone["text"].numpy()[0] == together["text"].numpy()[0]
    np.testing.assert_allclose(alone["score"][0], together["score"][0], atol=1e-4)


def test_what_a_model_answers_is_written_in_ascii_digits_and_hyphens(dates_text_model):
    answers = dates_text_model.translate(tf.constant(as_bytes(ODD_TEXTS), tf.string))["text"]
    for answer in answers.numpy():
        assert set(answer.decode()) <= set("-0123456789")


def test_alignment_has_a_row_for_every_target_token_and_a_column_for_every_source_token(
    dates_text_model,
):
    texts = ["3. März 1998", "1/2/03"]
    found = dates_text_model.align(tf.constant(texts))
    target_lengths = found["target_lengths"].numpy()
    assert found["source_lengths"].numpy().tolist() == [13, 7]
    assert found["source_tokens"].numpy()[1].tolist()[:8] == [
        *(character.encode() for character in "1/2/03"),
        b"</s>",
        b"",
    ]
    sums = tf.reduce_sum(found["alignment"], -1).numpy()
    real = np.arange(sums.shape[1]) < target_lengths[:, None]
    np.testing.assert_allclose(sums, real, atol=1e-5)
    for source, target, alignment in dates_text_model.alignments(texts):
        assert alignment.shape == (len(target), len(source))


def test_answers_come_in_the_order_of_the_texts(dates_text_model):
    texts = ["1998-03-04", "2001-12-24", "", "1977-05-06"] * 40
    together = list(dates_text_model.answer(texts, batch_size=7))
    assert together == list(dates_text_model.answer(texts[:4])) * 40


def test_the_longest_answer_is_cut(dates_text_model):
    hopeless = tf.constant(["9" * 300])
    lengths = dates_text_model.align(hopeless)["target_lengths"]
    assert int(lengths[0]) <= LONGEST_ANSWER


def test_answers_longer_than_the_model_can_write_are_refused():
    sizes = {"dim": 8, "num_heads": 1, "intermediate_dim": 8}
    model = Transformer(9, 9, **sizes, encoder_layers=1, decoder_layers=1, max_length=5)
    tokenizer = CharacterTokenizer("abcdef")
    TextModel(model, tokenizer, tokenizer, max_source_length=7, max_length=5)
    with pytest.raises(ValueError, match=r"can write 5 tokens at most.*Received: max_length=6"):
        TextModel(model, tokenizer, tokenizer, max_source_length=7, max_length=6)


def test_tokens_in_and_out_are_those_of_the_texts(dates_text_model):
    texts = tf.constant(["3. März 1998", "", "1/2/03"])
    ids = dates_text_model.source_tokenizer.tokenize(texts)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    expected = dates_text_model.translate(texts)
    for padding in (0, 2, 7):  # what lies beyond the lengths is never looked at
        found = dates_text_model.translate_tokens(ids.to_tensor(padding), lengths)
        spelled = dates_text_model.target_tokenizer.detokenize(found["ids"], found["lengths"])
        assert spelled.numpy().tolist() == expected["text"].numpy().tolist()
        np.testing.assert_allclose(found["score"], expected["score"], atol=1e-5)


def test_tokens_of_an_empty_batch_or_without_columns_have_an_answer(dates_text_model):
    none = dates_text_model.translate_tokens(tf.zeros([0, 3], tf.int32), tf.zeros([0], tf.int32))
    assert none["ids"].shape[0] == none["lengths"].shape[0] == 0
    empty = dates_text_model.translate_tokens(tf.zeros([2, 0], tf.int32), tf.zeros([2], tf.int32))
    assert empty["ids"].shape[0] == 2


@pytest.mark.parametrize("length", [-1, 4])
def test_lengths_that_do_not_fit_the_ids_are_refused(dates_text_model, length):
    with pytest.raises(tf.errors.InvalidArgumentError, match="lengths must lie between"):
        dates_text_model.translate_tokens(tf.ones([1, 3], tf.int32), tf.constant([length]))
