"""Text and stores on a file system of tf.io.gfile, here TensorFlow's own in memory."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.aligned_text import aligned_lines, count_lines, read_lines
from keras_attn.data.locations import corpus_directory
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.token_batches import token_batches
from keras_attn.errors import UserError
from keras_attn.paths import path_of
from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.text import CharacterTokenizer

TOKENIZER = CharacterTokenizer("abcdefghij")


def _written(name, content):
    path = path_of("ram://remote") / name
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def _flat(batches):
    return [array for batch in batches for array in tf.nest.flatten(batch)]


def test_remote_lines_are_those_of_a_local_file(tmp_path):
    content = b"\xef\xbb\xbfone\r\ntwo\x0bthree\n" + b"x" * 70_000 + b"\n" + b"abc\n" * 400_000
    path = _written("text", content)
    (tmp_path / "text").write_bytes(content)
    assert list(read_lines(path)) == list(read_lines(tmp_path / "text"))
    assert count_lines("ram://remote/text") == count_lines(tmp_path / "text") == 400_003


def test_what_is_wrong_with_a_remote_file_is_one_sentence():
    with pytest.raises(UserError, match="There is no file ram://remote/none"):
        list(read_lines("ram://remote/none"))
    _written("bad", b"good\nb\xffd\n")
    with pytest.raises(UserError, match="ram://remote/bad, line 2 is not UTF-8"):
        list(read_lines("ram://remote/bad"))
    with pytest.raises(UserError, match="Cannot read ram://remote/none"):
        PairStore("ram://remote/none")
    _written("half", b"no store of pairs, but long enough to be asked for its end")
    with pytest.raises(UserError, match="ram://remote/half is not a whole store"):
        PairStore("ram://remote/half")


def test_a_remote_store_gives_the_batches_of_a_local_one(tmp_path):
    pairs = [("abcdefghij"[: n % 9 + 1] * 3, "ja" * (n % 4 + 1)) for n in range(3_000)]
    places = path_of("ram://remote/store"), tmp_path / "store"
    for place in places:
        write_pair_store(place, pairs, TOKENIZER, TOKENIZER, max_tokens=40)
    remote, local = map(PairStore, places)
    assert remote.content == local.content
    for find in (lambda batches: batches.from_step(7), lambda batches: batches.parts(2, 1, 3)):
        batches = [find(token_batches(store, 300, 1)).take(5) for store in (remote, local)]
        for one, two in zip(*map(_flat, batches), strict=True):
            np.testing.assert_array_equal(one, two)
    one, two = (token_batches(remote, 300, 1).as_numpy_iterator() for _ in range(2))
    for _ in range(30):  # two readers of one file
        np.testing.assert_equal(next(one), next(two))


def test_a_corpus_is_found_and_named_where_it_lies(monkeypatch):
    for name in ("a", "b"):
        _written(name, b"one\n")
    files = FileCorpus(*["ram://remote/a", "ram://remote/b"] * 2)
    assert files.settings["validation_target"] == "ram://remote/b"
    assert list(aligned_lines(*files.training())) == [("one", "one")]
    monkeypatch.setenv("KERAS_ATTN_DATA", "ram://")
    assert str(corpus_directory("remote", ["a", "b"], "")) == "ram://remote"
    with pytest.raises(UserError, match="none looked for in ram://remote"):
        corpus_directory("remote", ["none"], "get it")
