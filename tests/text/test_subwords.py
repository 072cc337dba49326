import builtins
import hashlib
import itertools
import random
import subprocess
import sys
import unicodedata
from collections import Counter

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.serving import export
from keras_attn.serving.text_model import TextModel
from keras_attn.text import (
    END,
    PADDING,
    START,
    UNKNOWN,
    SubwordTokenizer,
    first_merges,
    learn_subwords,
)

WORDS = "a man in the red shirt runs with his dog near an old house ein Mann läuft über die Straße"
ODD = [
    b"",
    b" ",
    b"\x00",
    b"a\x00b",
    "😀 é".encode(),
    b"\xff\xfe",
    b"the\xe2\x82",
    b"\xed\xa0\x80",
    "\ufffe\uffff\u2028 \x85\x0b\t\n".encode(),
    b"x" * 50_000,
    b"the dog " * 6_250,
    "ﬁ A\u0301 ½ ㍿ ﷺ".encode(),
    "▁the▁dog".encode(),
    b"</s> <s> <unk> <pad> <0xE2>",
]


def corpus(lines=400):
    draw = random.Random(1)
    words = WORDS.split()
    return [" ".join(draw.choices(words, k=draw.randint(3, 12))) + "." for _ in range(lines)]


@pytest.fixture(scope="module")
def model():
    return learn_subwords(corpus(), 340)


@pytest.fixture(scope="module")
def tokenizer(model):
    return SubwordTokenizer(model)


def _fuzzed(count=3_000):
    """Strings of known words, every Unicode plane, white space and bytes that are no text."""
    draw = random.Random(2)
    planes = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]

    def part():
        kind = draw.randrange(4)
        if kind == 0:
            return draw.choice(WORDS.split()).encode()
        if kind == 1:
            return chr(draw.randint(*draw.choice(planes))).encode()
        if kind == 2:
            return draw.choice([" ", "  ", "\u00a0", "\u3000", "\t", "▁", "\u0301", "🏴‍☠️"]).encode()
        return draw.randbytes(draw.randint(1, 3))

    return [b"".join(part() for _ in range(draw.randint(0, 12))) for _ in range(count)]


def test_ids_are_those_of_the_library_and_every_byte_has_one(model, tokenizer):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert (
        processor.pad_id(),
        processor.bos_id(),
        processor.eos_id(),
        processor.unk_id(),
    ) == (PADDING, START, END, UNKNOWN)
    assert tokenizer.vocabulary_size == processor.vocab_size() == 340
    assert processor.id_to_piece(4 + 0xE2) == "<0xE2>"


@pytest.mark.parametrize("texts", [ODD, _fuzzed()], ids=["odd", "fuzzed"])
def test_ids_in_the_graph_equal_those_of_the_python_package(model, tokenizer, texts):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [processor.encode(text.decode("utf-8", "replace")) for text in texts]
    ids = tf.function(tokenizer.tokenize)(tf.constant(texts))
    assert ids.dtype == tf.int32
    assert ids.to_list() == expected
    assert tokenizer.split(tf.constant(texts)).row_lengths().numpy().tolist() == [
        len(row) for row in expected
    ]


@pytest.mark.parametrize("texts", [ODD, _fuzzed()], ids=["odd", "fuzzed"])
def test_the_round_trip_loses_normalisation_and_nothing_else(model, tokenizer, texts):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    normal = [processor.normalize(text.decode("utf-8", "replace")) for text in texts]
    ids = tokenizer.tokenize(tf.constant(texts))
    found = tokenizer.detokenize(ids.to_tensor(), ids.row_lengths()).numpy()
    assert [text.decode() for text in found] == [
        text.replace("▁", " ").lstrip(" ") for text in normal
    ]


def test_text_that_is_normal_already_comes_back_as_it_was(tokenizer):
    texts = [
        "Two dogs  run.",
        "ﬁne ½",
        "A\u0301 😀 €5",
        "日本語 한국어 ελ",
        "a\tb\u2028c",
        "<0xE2> </s>",
    ]
    ids = tokenizer.tokenize(tf.constant(texts))
    found = tokenizer.detokenize(ids.to_tensor(), ids.row_lengths()).numpy()
    assert [text.decode() for text in found] == [
        unicodedata.normalize("NFKC", text).replace("  ", " ") for text in texts
    ]


def test_only_the_first_ids_are_spelled_and_special_tokens_spell_nothing(tokenizer):
    ids = tokenizer.tokenize(tf.constant(["the dog"])).to_list()[0]
    row = [START, *ids, UNKNOWN, END, *ids]
    found = tokenizer.detokenize(tf.constant([row, row]), tf.constant([len(ids) + 3, 0]))
    assert found.numpy().tolist() == [b"the dog", b""]
    wide = tokenizer.detokenize(tf.constant([row], tf.int64), tf.constant([len(ids) + 3]))
    assert wide.numpy().tolist() == [b"the dog"]


def test_bytes_that_are_no_text_are_spelled_as_valid_text(tokenizer):
    found = tokenizer.detokenize(tf.constant([[4 + 0xE2, 4 + 0x82]]), tf.constant([2]))
    assert found.numpy()[0].decode() == "\ufffd\ufffd"


def test_pieces_are_readable(tokenizer):
    texts = tf.constant(["the Mann <€"])
    expected = ["▁the", "▁Mann", "▁", "<", "<0xE2>", "<0x82>", "<0xAC>"]
    assert [piece.decode() for piece in tokenizer.split(texts).to_list()[0]] == expected
    ids = tokenizer.tokenize(texts).to_tensor()
    ids = tf.concat([[[START]], ids, [[END, PADDING]]], axis=1)
    assert [piece.decode() for piece in tokenizer.pieces(ids).numpy()[0]] == [
        "",
        *expected,
        "</s>",
        "",
    ]


def test_an_empty_batch_stays_empty(tokenizer):
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []
    assert tokenizer.detokenize(tf.zeros([0, 3], tf.int32), tf.zeros([0], tf.int32)).shape == (0,)
    assert tokenizer.detokenize(tf.zeros([2, 0], tf.int32), tf.zeros([2], tf.int32)).shape == (2,)


def test_learning_is_the_same_in_every_process_also_from_a_sample(tmp_path):
    code = (
        "import sys, hashlib; from keras_attn.text import learn_subwords;"
        "lines = sys.stdin.buffer.read().decode().split('\\n');"
        "print(hashlib.sha256(learn_subwords(lines, 320, sample_lines=150)).hexdigest())"
    )
    reply = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(corpus()).encode(), capture_output=True
    )
    here = learn_subwords(iter(corpus()), 320, sample_lines=150)
    assert reply.stdout.decode().split() == [hashlib.sha256(here).hexdigest()]
    assert here != learn_subwords(corpus(), 320)


def test_no_more_lines_are_held_than_the_sample_has():
    alive = Counter()

    class Line(str):
        __slots__ = ()

        def __del__(self):
            alive["now"] -= 1

    def lines():
        for line in corpus(3_000):
            alive["now"] += 1
            alive["most"] = max(alive["most"], alive["now"])
            yield Line(line)

    learn_subwords(lines(), 320, sample_lines=100)
    assert alive["most"] <= 110


def test_the_first_merges_are_the_most_frequent_pairs(model):
    words = Counter(f"▁{word}" for line in corpus() for word in line.split())
    spelled = {word: list(word) for word in words}
    for left, right in first_merges(model, 25):
        pairs = Counter()
        for word, parts in spelled.items():
            for pair in itertools.pairwise(parts):
                pairs[pair] += words[word]
        assert pairs[left, right] == max(pairs.values())
        for parts in spelled.values():
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == (left, right):
                    parts[at : at + 2] = [left + right]
                at += 1


def test_all_merges_join_two_known_pieces(model):
    merges = first_merges(model, 10_000)
    assert 0 < len(merges) < 340
    known = set()
    for pair in merges:
        assert all(len(part) == 1 or part in known for part in pair)
        known.add("".join(pair))
    assert known == set(SubwordTokenizer(model).merged)


@pytest.mark.parametrize(
    ("lines", "size", "message"),
    [
        (["ab ab"], 400, "at most 266 subwords, 400 were asked for"),
        (["ab ab"], 100, "need a vocabulary of 263 subwords, 100 were asked for"),
        (["ab ab"], 0, "need a vocabulary of 263 subwords, 0 were asked for"),
        ([], 300, "no text .*: not a single line"),
        (["", "  "], 300, "no text .* of 2 lines 2 are empty and 0 are longer"),
        (["x" * 4193, None, ""], 300, "of 3 lines 1 are empty and 2 are longer than 4192 bytes"),
        (["▁"], 300, "no text .*: the lines have nothing but"),
    ],
)
def test_a_vocabulary_that_the_text_does_not_allow_is_refused(lines, size, message):
    with pytest.raises(UserError, match=message) as error:
        learn_subwords(lines, size)
    assert "\n" not in str(error.value)


def test_the_largest_vocabulary_that_is_named_can_be_learned():
    assert SubwordTokenizer(learn_subwords(["ab ab"], 266)).vocabulary_size == 266


def test_an_error_while_reading_lines_reaches_the_caller():
    def lines():
        yield "a line"
        raise UserError("train.de, line 2: not UTF-8.")

    with pytest.raises(UserError, match="line 2"):
        learn_subwords(lines(), 300)


def test_without_sentencepiece_the_error_says_what_to_install(monkeypatch, model):
    real = builtins.__import__

    def missing(name, *arguments, **keywords):
        if name == "sentencepiece":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UserError, match=r'pip install "keras-attn\[translation\]"'):
        learn_subwords(["text"], 300)
    assert SubwordTokenizer(model).vocabulary_size == 340


def _otherwise_numbered():
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, vocab_size=45, minloglevel=2
    )
    return model.getvalue()


@pytest.mark.parametrize("broken", [b"", b"nonsense", _otherwise_numbered()])
def test_bytes_that_are_no_model_of_ours_are_refused(broken):
    with pytest.raises(UserError, match="learn"):
        SubwordTokenizer(broken)


class _Echo:
    """A sequence model that answers with its source: state is the source and the position."""

    variables = ()

    def __init__(self, vocabulary_size):
        self.vocabulary_size = vocabulary_size

    def encode(self, inputs):
        return inputs["source"]

    def initial_state(self, memory):
        return {"memory": memory, "at": tf.zeros(tf.shape(memory)[0], tf.int32)}

    def step(self, tokens, state):
        at = tf.minimum(state["at"], tf.shape(state["memory"])[1] - 1)
        wanted = tf.gather(state["memory"], at, batch_dims=1)
        logits = tf.one_hot(tf.where(wanted == PADDING, END, wanted), self.vocabulary_size) * 50.0
        attention = tf.one_hot(at, tf.shape(state["memory"])[1])
        return logits, state | {"at": state["at"] + 1}, attention


def test_an_exported_text_model_answers_in_a_process_without_our_code(tokenizer, tmp_path):
    echo = TextModel(_Echo(tokenizer.vocabulary_size), tokenizer, tokenizer, 40, 40)
    exported = export(echo, tmp_path / "echo")
    code = (
        "import sys, tensorflow as tf, tensorflow_text;"
        f"model = tf.saved_model.load({str(exported)!r});"
        "text = tf.constant([b'the dog \\xf0\\x9f\\x98\\x80', b'', b'a\\xff']);"
        "reply = model.signatures['serving_default'](text=text);"
        "tokens = model.signatures['attention'](text=text)['source_tokens'];"
        "assert not {'keras_attn', 'sentencepiece'} & set(sys.modules);"
        "print([answer.decode() for answer in reply['text'].numpy()], tokens.numpy()[2, :2])"
    )
    reply = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (
        reply.stdout.strip() == "['the dog 😀', '', 'a\ufffd'] [b'\\xe2\\x96\\x81a' b'<0xEF>']"
    ), reply.stderr


def test_setting_the_seed_leaves_a_tokenizer_alive(tokenizer):
    tokenize = tf.function(tokenizer.tokenize)
    texts = tf.constant(["the dog"])
    before = tokenize(texts).to_list()
    keras.utils.set_random_seed(1)
    assert tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list() == before


def test_pieces_do_not_depend_on_the_neighbours_in_the_batch(tokenizer):
    texts = _fuzzed(50)
    together = tokenizer.tokenize(tf.constant(texts)).to_list()
    alone = [tokenizer.tokenize(tf.constant([text])).to_list()[0] for text in texts]
    np.testing.assert_equal(together, alone)
