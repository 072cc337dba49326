import os
import tracemalloc

import pytest

from keras_attn.data import aligned_text
from keras_attn.data.aligned_text import LONGEST_LINE, aligned_lines, count_lines, read_lines
from keras_attn.errors import UserError


def _file(tmp_path, content, name="text"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        (b"a\rb\r\r\n", ["a\rb\r"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b"\n\n\n", ["", "", ""]),
        (
            "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\x00j\nk".encode(),
            ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\x00j", "k"],
        ),
    ],
)
def test_only_a_newline_ends_a_line_and_the_count_agrees(tmp_path, content, lines):
    path = _file(tmp_path, content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_is_too_long_from_one_byte_more_than_the_longest(tmp_path, end):
    whole, long = b"x" * LONGEST_LINE, b"y" * (LONGEST_LINE + 1)
    path = _file(tmp_path, b"a\n" + whole + b"\n" + long + b"\n" + b"b\n" + long + end)
    assert list(read_lines(path)) == ["a", whole.decode(), None, "b", None]
    assert count_lines(path) == 5
    assert list(read_lines(_file(tmp_path, whole + end))) == [whole.decode()]


@pytest.mark.parametrize("more", range(LONGEST_LINE - 3, LONGEST_LINE + 4))
def test_long_lines_of_every_size_end_where_they_end(tmp_path, more):
    path = _file(tmp_path, b"x" * (LONGEST_LINE + more) + b"\r\nb\n")
    assert list(read_lines(path)) == [None, "b"]


def test_an_endless_line_is_never_held(tmp_path):
    path = _file(tmp_path, b"x" * 20_000_000 + b"\nend\n")
    tracemalloc.start()
    assert list(read_lines(path)) == [None, "end"]
    assert count_lines(path) == 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3_000_000


def test_bytes_that_are_not_utf8_are_named_with_file_and_line(tmp_path):
    path = _file(tmp_path, b"one\ntwo\nthr\xffee\n", "train.de")
    with pytest.raises(UserError, match=r"train\.de, line 3 .*0xff at place 4"):
        list(read_lines(path))


def test_utf16_is_refused_at_its_first_line(tmp_path):
    with pytest.raises(UserError, match="line 1 is not UTF-8"):
        list(read_lines(_file(tmp_path, "text\n".encode("utf-16"))))


def test_a_missing_file_is_named_with_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"no file {tmp_path / 'train.en'}"):
        list(read_lines("train.en"))


def test_what_is_no_plain_file_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError, match="not a plain file"):
            count_lines(path)


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    path = _file(tmp_path, b"one\n")

    def denied(self, *arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(aligned_text.Path, "open", denied)
    with pytest.raises(UserError, match=f"{path}: Permission denied"):
        list(read_lines(path))


def test_pairs_stay_aligned(tmp_path):
    source = _file(tmp_path, b"\xef\xbb\xbfone\x0b1\r\n\r\nthree\r\n", "a")
    target = _file(tmp_path, "eins\u2028\nzwei\ndrei".encode(), "b")
    assert list(aligned_lines(source, target)) == [
        ("one\x0b1", "eins\u2028"),
        ("", "zwei"),
        ("three", "drei"),
    ]


def test_unequal_files_are_refused_with_both_counts_before_any_line_is_given(tmp_path):
    source = _file(tmp_path, b"one\ntwo\nthree\n", "a")
    target = _file(tmp_path, b"eins\nzwei\n", "b")
    with pytest.raises(UserError, match=r"a has 3 lines and .*b has 2"):
        next(aligned_lines(source, target))
