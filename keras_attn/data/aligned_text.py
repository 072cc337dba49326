"""Two text files whose lines belong together, read as streams."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_attn.data.reading import opened
from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of

LONGEST_LINE = 1 << 16  # bytes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str | os.PathLike) -> Iterator[str | None]:
    """The lines of a UTF-8 text file, one at a time.

    The file may lie on any file system of `tf.io.gfile`.
    Only `\\n` ends a line: a form feed or a Unicode line separator (U+2028) inside a line does not
    shift the lines that follow. A `\\r` before it and a byte-order mark at the start of the file
    are dropped. A line of more than 65,536 bytes, which is never held as a whole, comes as None.

    Raises:
        UserError: if there is no such file, it cannot be read, or a line is not UTF-8.

    Example:
        >>> Path("two.txt").write_bytes(b"one\\r\\ntwo\\x0bthree")
        >>> list(read_lines("two.txt"))
        ['one', 'two\\x0bthree']
    """
    with opened_text(path) as file:
        for number, line in enumerate(raw_lines(file), start=1):
            yield None if line is None else decoded(line, path, number)


def count_lines(path: str | os.PathLike) -> int:
    """How many lines `read_lines` gives.

    Raises:
        UserError: if there is no such file or it cannot be read.
    """
    lines, last = 0, b"\n"
    with opened_text(path) as file:
        while part := file.read(1 << 20):
            lines += part.count(b"\n")
            last = part[-1:]
    return lines + (last != b"\n")


def aligned_lines(
    source: str | os.PathLike, target: str | os.PathLike
) -> Iterator[tuple[str | None, str | None]]:
    """The pairs of lines of two files that translate each other; see `read_lines`.

    Raises:
        UserError: if the files have unequal numbers of lines, or as `read_lines`.
    """
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UserError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}; "
            "line n of one must translate line n of the other."
        )
    yield from zip(read_lines(source), read_lines(target), strict=True)


def opened_text(path: str | os.PathLike) -> BinaryIO:
    """A text file opened to read bytes, after its byte-order mark.

    A pipe is refused because it cannot be read twice.

    Raises:
        UserError: if there is no such file or it cannot be read.
    """
    path: Path | RemotePath = path_of(path).absolute()
    if not path.exists():
        raise UserError(f"There is no file {path}.")
    if not path.is_file():
        raise UserError(f"{path} is not a plain file; give a text file.")
    try:
        file = opened(path)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    if file.read(len(_BYTE_ORDER_MARK)) != _BYTE_ORDER_MARK:
        file.seek(0)
    return file


def raw_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Lines without their ends; None for one that is longer than `LONGEST_LINE`."""
    while line := file.readline(LONGEST_LINE + len(b"\r\n")):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        yield text if len(text) <= LONGEST_LINE else None
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST_LINE)


def decoded(line: bytes, path: str | os.PathLike, number: int) -> str:
    """The text of a line.

    Raises:
        UserError: if it is not UTF-8; the sentence names the file, the line and the byte.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number} is not UTF-8 (byte 0x{line[error.start]:02x} at place "
            f"{error.start + 1}); convert the file to UTF-8."
        ) from error
