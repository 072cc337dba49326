"""Files appear whole or not at all, on a disk and on a file system of TensorFlow alike."""

import uuid
from contextlib import suppress

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import path_of


@pytest.fixture(params=["disk", "ram"])
def directory(request, tmp_path):
    return tmp_path if request.param == "disk" else path_of(f"ram://{uuid.uuid4().hex}/runs")


def test_a_file_is_written_replaced_and_kept(directory):
    path, previous = directory / "deep" / "a.npz", directory / "deep" / "b.npz"
    for number in (1, 2):
        with written_whole(path, previous) as file:
            np.savez(file, number=number)
            assert path.exists() == (number == 2)
    for written, number in ((path, 2), (previous, 1)):
        with written.open("rb") as file, np.load(file) as content:
            assert content["number"] == number
    assert [each.name for each in sorted(path.parent.glob("*"))] == ["a.npz", "b.npz"]
    assert (path.name, path.stem, path.suffix) == ("a.npz", "a", ".npz")


def test_what_stops_the_writing_leaves_the_old_file(directory):
    path = directory / "a.txt"
    with written_whole(path) as file:
        file.write(b"whole")
    with suppress(RuntimeError), written_whole(path) as file:
        file.write(b"ha")
        raise RuntimeError
    assert path.read_text(encoding="utf-8") == "whole"
    assert [each.name for each in directory.glob("*")] == ["a.txt"]


def test_files_are_read_added_to_renamed_and_removed(directory):
    path = directory / "log.txt"
    with written_whole(path) as file:
        file.write("één\n".encode())
    with path.open("a", encoding="utf-8") as file:
        file.write("twee\n")
    assert path.read_bytes().decode() == "één\ntwee\n"
    with path.open(encoding="utf-8") as file:
        assert list(file) == ["één\n", "twee\n"]
    path.replace(directory / "other.txt")
    assert not path.exists()
    assert (directory / "other.txt").is_file()
    (directory / "other.txt").unlink()
    path.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    with pytest.raises(FileNotFoundError):
        path.unlink()


def test_a_place_that_cannot_be_written_is_one_sentence():
    with (
        pytest.raises(UserError, match=r"^Cannot write nosuchsystem://a/b: .*unharmed\.$"),
        written_whole("nosuchsystem://a/b") as file,
    ):
        file.write(b"x")
