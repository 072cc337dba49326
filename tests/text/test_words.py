"""Words by their ids, and rare ones by the class of their shape and ending."""

import pytest
import tensorflow as tf

from keras_attn.text import WordTokenizer, learn_words
from keras_attn.text.words import class_candidates

WORDS = ["the", "dog", "I", "-LRB-"]
CLASSES = ["a", "a~ing", "a~s", "Aa", "AA", "0", "a-~ed", "Aa~er"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(WORDS, CLASSES)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("dog", "dog"),
        ("Dog", "dog"),  # by its lower case
        ("i", "<a>"),  # a word has no upper case to be found by
        ("barking", "<a~ing>"),
        ("cats", "<a~s>"),
        ("xyz", "<a>"),
        ("old-fashioned", "<a-~ed>"),
        ("Barking", "<Aa>"),  # a shape of its own, though the ending is known
        ("Élder", "<Aa~er>"),
        ("NATO", "<AA>"),
        ("1990s", "<0>"),
        ("x-1", "<unk>"),
        ("日本", "<a>"),
        ("(", "-LRB-"),
        (")", "<unk>"),
    ],
)
def test_a_word_has_its_own_id_or_that_of_its_most_special_class(tokenizer, word, found):
    ids = tokenizer.tokenize(tf.constant([word])).to_tensor()
    assert [text.decode() for text in tokenizer.pieces(ids).numpy()[0]] == [found]
    assert tokenizer.detokenize(ids, tf.constant([1])).numpy()[0].decode() == found


def test_a_text_is_cut_at_white_space_and_brackets_are_words(tokenizer):
    texts = ["the  dog(s)\u00a0I\n", "", b"\xff\xfe the\x00dog"]
    found = tokenizer.split(tf.constant(texts)).to_list()
    assert found == [
        [b"the", b"dog", b"-LRB-", b"s", b"-RRB-", b"I"],
        [],
        ["\ufffd\ufffd".encode(), b"the", b"dog"],
    ]
    ids = tf.function(tokenizer.tokenize)(tf.constant(texts))
    assert ids.row_lengths().numpy().tolist() == [6, 0, 3]


def test_a_word_has_four_classes_the_most_special_first():
    found = class_candidates(tf.constant(["Re-opening", "A", ""])).numpy()
    assert [[name.decode() for name in row] for row in found] == [
        ["Aa-~ing", "Aa-~ng", "Aa-~g", "Aa-"],
        ["AA~a", "AA~a", "AA~a", "AA"],
        ["a~", "a~", "a~", "a"],
    ]


def test_words_are_learned_by_how_often_they_occur_and_classes_from_rare_words_alone():
    sentences = [["sing", "sing", "ring"], ["King", "wing", "sing", "Sing"]]
    words, classes = learn_words(sentences, min_count=3, min_class_count=2)
    assert words == ["sing"]  # three times; "Sing" counts as it
    assert classes == ["a", "a~g", "a~ing", "a~ng", "Aa"]  # "Aa~ing" occurs once, a shape is kept
    tokenizer = WordTokenizer(words, classes)
    ids = tokenizer.tokenize(tf.constant(["sing Sing ring King"])).to_tensor()
    assert tokenizer.pieces(ids).numpy()[0].tolist() == [b"sing", b"sing", b"<a~ing>", b"<Aa>"]
    assert learn_words([["a", "a"]], 1, 1) == (["a"], [])


def test_a_vocabulary_without_words_or_with_one_twice_is_refused():
    with pytest.raises(ValueError, match="Received: 0 words and 1 classes"):
        WordTokenizer([], ["a"])
    with pytest.raises(ValueError, match="Received: 2 words and 0 classes"):
        WordTokenizer(["a", "a"], [])
    assert WordTokenizer(["a"], []).tokenize(tf.constant(["a b"])).to_list() == [[4, 3]]
