import pytest
import tensorflow as tf

from keras_attn.text import UNKNOWN, CharacterTokenizer, normalize

ODD = ["", " ", "\x00", "a\x00b", "😀 é", b"\xff\xfe", "x" * 10_000, "ﬁ", "A\u0301"]


@pytest.fixture(scope="module")
def tokenizer():
    return CharacterTokenizer("abcdefghijklmnopqrstuvwxyzáé 0123456789-")


def test_normalised_text_is_composed_lower_case_and_single_spaced():
    texts = normalize(tf.constant(["  3.\u00a0MÄRZ\n\t1998 ", "ﬁ", "A\u0301", "ab\x00c", "İ"]))
    expected = ["3. märz 1998", "fi", "á", "ab c", "i\u0307"]
    assert [text.decode() for text in texts.numpy()] == expected


def test_bytes_that_are_not_utf8_become_replacement_characters():
    assert normalize(tf.constant([b"a\xff\xfeb"])).numpy()[0].decode() == "a\ufffd\ufffdb"


def test_text_of_known_characters_survives_the_round_trip(tokenizer):
    texts = tf.constant(["1998-03-03", "", "olé 7", "z"])
    ids = tokenizer.tokenize(texts)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    assert tokenizer.detokenize(ids.to_tensor(), lengths).numpy().tolist() == texts.numpy().tolist()


def test_unknown_characters_are_unknown_and_never_a_neighbour(tokenizer):
    ids = tokenizer.tokenize(tf.constant(["!~€😀"])).to_list()[0]
    assert ids == [UNKNOWN] * 4


@pytest.mark.parametrize("text", ODD, ids=[repr(text)[:12] for text in ODD])
def test_odd_text_has_as_many_ids_as_characters_in_eager_and_graph(tokenizer, text):
    texts = tf.constant([text, "abc"])
    eager = tokenizer.tokenize(texts)
    graph = tf.function(tokenizer.tokenize)(texts)
    assert eager.to_list() == graph.to_list()
    assert [len(row) for row in eager.to_list()] == [
        len(row) for row in tokenizer.split(texts).to_list()
    ]


def test_an_empty_batch_stays_empty(tokenizer):
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.detokenize(tf.zeros([0, 3], tf.int32), tf.zeros([0], tf.int32)).shape == (0,)


def test_pieces_show_the_end_token(tokenizer):
    assert tokenizer.pieces(tf.constant([[6, 2]])).numpy()[0, 1] == b"</s>"


@pytest.mark.parametrize("characters", ["", "aa"])
def test_an_alphabet_without_or_with_repeated_characters_is_refused(characters):
    with pytest.raises(ValueError, match="Received: characters="):
        CharacterTokenizer(characters)
