import errno
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data import pair_store
from keras_attn.data.pair_store import PairCounts, PairStore, Sequences, write_pair_store
from keras_attn.errors import UserError
from keras_attn.text import END, CharacterTokenizer

SOURCE = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz ")
TARGET = CharacterTokenizer("0123456789 ")


def numbered(count):
    """Pairs whose sides say which pair they are, of lengths that differ from pair to pair."""
    draw = random.Random(3)
    letters = "abcdefghij"
    pairs = []
    for number in range(count):
        digits = f"{number}"
        words = "".join(letters[int(digit)] for digit in digits)
        pairs.append((words + "x" * draw.randint(0, 20), digits + "0" * draw.randint(0, 9)))
    return pairs


def _write(path, pairs, max_tokens=100, **arguments):
    return write_pair_store(path, pairs, SOURCE, TARGET, max_tokens=max_tokens, **arguments)


def _texts(store):
    """All pairs of a store, spelled."""
    texts = []
    for number in range(store.number_of_blocks):
        spelled = []
        for side, tokenizer in zip(store.block(number), (SOURCE, TARGET), strict=True):
            assert side.ids.dtype == side.lengths.dtype == np.int32
            ids = tf.RaggedTensor.from_row_lengths(side.ids, side.lengths)
            assert (ids[:, -1:].values.numpy() == END).all()
            found = tokenizer.detokenize(ids.to_tensor(), ids.row_lengths()).numpy()
            spelled.append([text.decode() for text in found])
        texts += zip(*spelled, strict=True)
    return texts


def test_what_is_written_is_what_is_read(tmp_path):
    pairs = numbered(2_500)
    counts = _write(tmp_path / "pairs", pairs)
    store = PairStore(tmp_path / "pairs")
    assert _texts(store) == pairs
    assert counts == store.counts == PairCounts(2_500, 2_500)
    assert len(store) == 2_500
    assert store.number_of_blocks == 3
    assert store.longest == max(len(text) for pair in pairs for text in pair) + 1
    assert store.tokens_of_blocks.sum() == sum(len(a) + len(b) + 2 for a, b in pairs)


def test_pairs_are_dropped_by_the_rules_and_counted(tmp_path):
    pairs = [
        ("abc", "123"),
        ("", "1"),
        ("a", " \u3000\t"),
        ("", ""),
        ("a" * 5, "1"),
        ("a" * 4, "1"),
        ("a", "1" * 5),
        (None, "1"),
        ("a", None),
        (None, None),
        ("", "1" * 9),
    ]
    counts = _write(tmp_path / "pairs", pairs, max_tokens=5)
    assert counts == PairCounts(lines=11, kept=2, empty=4, too_long=5)
    store = PairStore(tmp_path / "pairs")
    assert _texts(store) == [("abc", "123"), ("aaaa", "1")]
    assert store.longest == 5


def test_a_block_of_which_nothing_is_left_is_no_block(tmp_path):
    pairs = [("", "")] * 1_024 + [("a", "1")] + [("", "")] * 2_000
    assert _write(tmp_path / "pairs", pairs) == PairCounts(3_025, 1, 3_024, 0)
    assert PairStore(tmp_path / "pairs").number_of_blocks == 1


def test_progress_sees_the_counts_grow(tmp_path):
    seen = []
    counts = _write(tmp_path / "pairs", [*numbered(1_500), ("", "")], progress=seen.append)
    assert [count.lines for count in seen] == [1_024, 1_501]
    assert seen[-1] == counts


def test_large_vocabularies_keep_their_ids(tmp_path):
    class Large:
        vocabulary_size = 70_000

        def tokenize(self, texts):
            return tf.RaggedTensor.from_row_lengths(
                tf.fill([tf.size(texts)], 69_999), tf.ones_like(texts, tf.int64)
            )

    write_pair_store(tmp_path / "pairs", [("a", "1")] * 3, Large(), TARGET, max_tokens=9)
    sources, _ = PairStore(tmp_path / "pairs").block(0)
    assert sources.ids.tolist() == [69_999, END] * 3


def test_a_corpus_of_which_nothing_is_left_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(UserError, match=r"No pair of the 2 is left .* 1 have an empty side, 1 one"):
        _write(tmp_path / "pairs", [("", "1"), ("a" * 99, "1")], max_tokens=9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [UserError("line 3 is not UTF-8"), KeyboardInterrupt()])
def test_an_interrupted_store_leaves_the_old_one(tmp_path, failure):
    _write(tmp_path / "pairs", [("old", "1")])

    def stopped():
        yield from numbered(2_000)
        raise failure

    with pytest.raises(type(failure)):
        _write(tmp_path / "pairs", stopped())
    assert _texts(PairStore(tmp_path / "pairs")) == [("old", "1")]
    assert [entry.name for entry in tmp_path.iterdir()] == ["pairs"]


def test_a_full_disk_is_an_error_that_a_person_understands(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pair_store, "_write_block", full)
    with pytest.raises(UserError, match="No space left on device"):
        _write(tmp_path / "pairs", numbered(3))
    assert list(tmp_path.iterdir()) == []


def test_an_open_store_survives_that_another_takes_its_place(tmp_path):
    _write(tmp_path / "pairs", [("old", "1")])
    store = PairStore(tmp_path / "pairs")
    _write(tmp_path / "pairs", numbered(2_000))
    assert _texts(store) == [("old", "1")]


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_a_file_that_is_no_whole_store_is_refused(tmp_path, size):
    _write(tmp_path / "pairs", numbered(30))
    content = (tmp_path / "pairs").read_bytes()
    (tmp_path / "pairs").write_bytes(content[:size])
    with pytest.raises(UserError, match="not a whole store"):
        PairStore(tmp_path / "pairs")


def test_a_missing_store_is_named(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path / "pairs")):
        PairStore(tmp_path / "pairs")


def test_rows_are_taken_in_the_order_that_was_asked_for():
    sequences = Sequences(np.array([2, 0, 3, 1]), np.arange(6))
    taken = sequences.take(np.array([3, 0, 1, 2, 0]))
    assert taken.lengths.tolist() == [1, 2, 0, 3, 2]
    assert taken.ids.tolist() == [5, 0, 1, 2, 3, 4, 0, 1]
    assert sequences.take(np.array([], int)).ids.tolist() == []
