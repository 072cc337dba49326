"""Pairs in two aligned files, or in the columns of one."""

import pytest

from keras_attn.data.pair_files import pair_files, texts_of
from keras_attn.errors import UserError

FILES = {
    "tsv": b'\xef\xbb\xbfone\teins "\t1\r\n\ntwo\tzwei\t2\n',
    "csv": b'id,source,target\n1,"one, and\nmore","say ""eins"""\r\n\n2,two,zwei\n',
    "jsonl": b'{"target": "eins", "source": "one"}\n\n{"source": "two", "target": "zwei"}\n',
}


def _pairs(tmp_path, kind, content, columns=None):
    path = tmp_path / f"pairs.{kind}"
    path.write_bytes(content)
    return list(pair_files(None, None, {kind: path}, columns).pairs())


def test_each_kind_of_file_gives_its_pairs(tmp_path):
    found = {kind: _pairs(tmp_path, kind, content) for kind, content in FILES.items()}
    assert found == {
        "tsv": [("one", 'eins "'), ("two", "zwei")],
        "csv": [("one, and\nmore", 'say "eins"'), ("two", "zwei")],
        "jsonl": [("one", "eins"), ("two", "zwei")],
    }


@pytest.mark.parametrize(
    ("kind", "content", "columns", "pairs"),
    [
        ("tsv", b"1\tone\teins\n", "2,3", [("one", "eins")]),
        ("tsv", b"de\ten\neins\tone\n", "en, de", [("one", "eins")]),
        ("csv", b"eins,one\n", "2,1", [("one", "eins")]),
        ("jsonl", b'{"en": "one", "de": "eins"}\n', "en,de", [("one", "eins")]),
        ("tsv", b"one\t" + b"x" * 70_000 + b"\ntwo\tzwei\n", None, [(None, None), ("two", "zwei")]),
    ],
)
def test_columns_are_named_or_counted(tmp_path, kind, content, columns, pairs):
    assert _pairs(tmp_path, kind, content, columns) == pairs


@pytest.mark.parametrize(
    ("kind", "content", "columns", "words"),
    [
        ("tsv", b"one\n", None, "line 1 has 1 columns and no column 2"),
        ("tsv", b"one\teins\n", "en,de", "no column 'en'; its first line names one, eins"),
        ("tsv", b"one\teins\n", "2,2", "names the column 2 twice"),
        ("tsv", b"one\teins\n", "0,1", "counted from 1"),
        ("tsv", b"one\teins\n", "1,de", "two numbers, counted from 1, or two names"),
        ("csv", b"one,eins\n", "1", "two columns with a comma between"),
        ("csv", b'source,target\none,"eins\n', None, "line 2 is not CSV: unexpected end"),
        ("csv", b"source,target\none," + b"x" * 70_000, None, "line 2 is longer than 65536"),
        ("jsonl", b'{"source": "one"\n', None, "line 1 is not JSON"),
        ("jsonl", b"[1, 2]\n", None, "line 1 is not a JSON object"),
        ("jsonl", b'{"source": "one", "target": 3}\n', None, "no text under 'target'"),
        ("jsonl", b'{"source": "f\xfc", "target": "x"}\n', None, "line 1 is not UTF-8"),
    ],
)
def test_a_file_that_has_no_such_pairs_is_one_sentence(tmp_path, kind, content, columns, words):
    with pytest.raises(UserError, match=words):
        _pairs(tmp_path, kind, content, columns)


def test_what_cannot_be_two_aligned_files_is_one_sentence(tmp_path):
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_text("one\ntwo\n")
    other.write_text("eins\nzwei\n")
    none = dict.fromkeys(FILES)
    assert pair_files(None, None, none, None) is None
    files = pair_files(text, other, none, None)
    files.check()
    assert texts_of(files) == (["one", "two"], ["eins", "zwei"])
    (tmp_path / "link").symlink_to(text)
    for same in (text, tmp_path / "link"):
        with pytest.raises(UserError, match="given twice, as the source and as the target"):
            pair_files(text, same, none, None).check()
    with pytest.raises(UserError, match="--source and --tsv are given together"):
        pair_files(text, None, {**none, "tsv": text}, None)
    with pytest.raises(UserError, match="--validation-source needs --validation-target"):
        pair_files(text, None, none, None, "validation-")
    with pytest.raises(UserError, match="--columns is of files with columns"):
        pair_files(text, other, none, "1,2")
    contents = {"tsv": b"one\teins\ntwo\tzwei\n", **{k: FILES[k] for k in ("csv", "jsonl")}}
    contents["csv"] = b"one,eins\ntwo,zwei\n"
    for kind, content in contents.items():
        both = tmp_path / f"both.{kind}"
        both.write_bytes(content)
        with pytest.raises(UserError, match=f"several columns; give it as --{kind} instead"):
            pair_files(both, None, none, None)
        with pytest.raises(UserError, match=f"several columns, .* as --{kind} alone"):
            pair_files(both, other, none, None).check()
        with pytest.raises(UserError, match=f"given twice, .* as --{kind}"):
            pair_files(both, both, none, None).check()
