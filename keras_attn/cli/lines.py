"""Lines of text that come in."""

import codecs
import sys
from collections.abc import Iterable, Iterator


def lines_of(file: Iterable[bytes]) -> Iterator[bytes]:
    """Lines as bytes: only a newline ends one, and what is not UTF-8 is the tokenizer's to mend."""
    mark = codecs.BOM_UTF8  # what some editors put in front of a file
    for line in file:
        yield line.removeprefix(mark).removesuffix(b"\n").removesuffix(b"\r")
        mark = b""


def lines_of_standard_input() -> Iterator[bytes]:
    return lines_of(sys.stdin.buffer)
