"""Pairs of texts in files: two aligned ones, or one with columns, read as streams."""

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from keras_attn.data.aligned_text import (
    LONGEST_LINE,
    aligned_lines,
    decoded,
    opened_text,
    raw_lines,
    read_lines,
)
from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of

Place = Path | RemotePath
Pair = tuple[str | None, str | None]

_SEEN = 20  # lines of a file that are looked at for columns
_LONGEST_SEEN = 4_000  # characters of such a line
DEFAULT_COLUMNS = {"tsv": "1,2", "csv": "source,target", "jsonl": "source,target"}


class PairFiles(Protocol):
    """Where pairs of a source and a target stand; `str` of it names the files in a sentence."""

    def check(self) -> None:
        """Look at the first lines before anything slow begins.

        Raises:
            UserError: if a file is missing, or has columns where it should have none or others than
                those that were named.
        """

    def pairs(self) -> Iterator[Pair]:
        """The pairs, one at a time; a text too long to be held, of more than 65,536 bytes, is None.

        Raises:
            UserError: if a file cannot be read or has no pairs.
        """


class AlignedFiles(NamedTuple):
    """Two text files: line n of the one translates line n of the other."""

    source: Place
    target: Place

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"

    def pairs(self) -> Iterator[Pair]:
        yield from aligned_lines(self.source, self.target)

    def check(self) -> None:
        if _are_one_file(self.source, self.target) and _texts_in(self.source):
            kind = _columns_in(self.source)
            forms = f"--{kind}" if kind else "--tsv, --csv or --jsonl"
            raise UserError(
                f"{self.source} is given twice, as the source and as the target; give two files, "
                f"or one that has both in columns as {forms}."
            )
        for path in self:
            if kind := _columns_in(path):
                raise UserError(
                    f"{path} has several columns, where one text a line was expected; give a file "
                    f"that has source and target in columns as --{kind} alone."
                )
        next(self.pairs(), None)  # refuses files of unequal numbers of lines


class ColumnFile(NamedTuple):
    """One file with a pair in every row, each side in a column.

    A row of a TSV file is a line, its columns are what stands between the tabs, and nothing is
    quoted. A CSV file is that of RFC 4180: a text between quotes may have commas and lines in it. A
    line of a JSONL file is an object.

    Attributes:
        path: of the file.
        kind: `tsv`, `csv` or `jsonl`.
        columns: of the source and of the target. Numbers count columns from 1; then the first row
            is a pair. Names stand in the first row of a TSV or CSV file, and are the keys of the
            objects of a JSONL file.
    """

    path: Place
    kind: str
    columns: tuple[str, str]

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        next(self.pairs(), None)

    def pairs(self) -> Iterator[Pair]:
        with opened_text(self.path) as file:
            if self.kind == "jsonl":
                yield from self._pairs_of_objects(raw_lines(file))
            else:
                read = _tsv_rows if self.kind == "tsv" else _csv_rows
                yield from self._pairs_of_rows(read(file, self.path))

    def _pairs_of_rows(self, rows: Iterator[tuple[int, list[str] | None]]) -> Iterator[Pair]:
        places, rows = self._places(rows)
        for number, row in rows:
            if row is None:
                yield None, None
                continue
            if not any(text.strip() for text in row):  # a blank line, not a pair
                continue
            if len(row) <= max(places):
                raise UserError(
                    f"{self.path}, line {number} has {len(row)} columns and no column "
                    f"{max(places) + 1}; give the columns of source and target as --columns 1,2."
                )
            yield _held(row[places[0]]), _held(row[places[1]])

    def _places(self, rows: Iterator) -> tuple[tuple[int, int], Iterator]:
        """The columns counted from 0, and the rows that are pairs."""
        if all(name.isdecimal() for name in self.columns):
            return tuple(int(name) - 1 for name in self.columns), rows
        _, header = next(rows, (1, None))
        names = [name.strip() for name in header or []]
        missing = [name for name in self.columns if name not in names]
        if missing:
            raise UserError(
                f"{self.path} has no column {missing[0]!r}; its first line names "
                f"{', '.join(names) or 'none'}. Give two of them, or numbers, as --columns 1,2."
            )
        return tuple(names.index(name) for name in self.columns), rows

    def _pairs_of_objects(self, lines: Iterable[bytes | None]) -> Iterator[Pair]:
        for number, line in enumerate(lines, start=1):
            if line is None:
                yield None, None
            elif line.strip():
                yield self._pair_of_object(line, number)

    def _pair_of_object(self, line: bytes, number: int) -> Pair:
        try:
            found = json.loads(decoded(line, self.path, number))
        except ValueError as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{self.path}, line {number} is not JSON: {error}.") from error
        if not isinstance(found, dict):
            raise UserError(
                f"{self.path}, line {number} is not a JSON object; give one a line, with the "
                f"texts under {' and '.join(map(repr, self.columns))}."
            )
        for name in self.columns:
            if not isinstance(found.get(name), str):
                raise UserError(
                    f"{self.path}, line {number} has no text under {name!r}, but "
                    f"{', '.join(map(repr, found)) or 'nothing'}; name source and target as "
                    "--columns source,target."
                )
        source, target = (_held(found[name]) for name in self.columns)
        return source, target


def texts_of(files: PairFiles, count: int | None = None) -> tuple[list[str], list[str]]:
    """The first sources and targets of files; a text too long to be held is empty.

    Raises:
        UserError: if no pair has text on both sides, or the files cannot be read.
    """
    pairs = [
        (source or "", target or "") for source, target in itertools.islice(files.pairs(), count)
    ]
    if not any(source.strip() and target.strip() for source, target in pairs):
        raise UserError(
            f"{files} cannot be answered and compared: of {len(pairs)} lines none has text on "
            "both sides."
        )
    return [source for source, _ in pairs], [target for _, target in pairs]


def columns_of(text: str | None, kind: str) -> tuple[str, str]:
    """The two columns that `--columns` names, or those that files of that kind have by default.

    Raises:
        UserError: if they are not two different ones.

    Example:
        >>> columns_of("en,de", "csv")
        ('en', 'de')
    """
    names = [name.strip() for name in (text or DEFAULT_COLUMNS[kind]).split(",")]
    if len(names) != 2 or not all(names):
        raise UserError(
            f"--columns takes two columns with a comma between, as 1,2. Received: {text!r}."
        )
    if names[0] == names[1]:
        raise UserError(
            f"--columns names the column {names[0]} twice; give that of the source and that of the "
            f"target. Received: {text!r}."
        )
    numbered = [name.isdecimal() for name in names]
    if kind != "jsonl" and (any(numbered) != all(numbered) or "0" in names):
        raise UserError(
            f"--columns takes two numbers, counted from 1, or two names. Received: {text!r}."
        )
    return names[0], names[1]


def pair_files(
    source: str | None,
    target: str | None,
    tables: dict[str, str | None],
    columns: str | None,
    prefix: str = "",
) -> "AlignedFiles | ColumnFile | None":
    """The files that were given by options, in one of the forms; None if there are none.

    Args:
        source, target: of aligned files.
        tables: the path of a file with columns by its kind.
        columns: see `columns_of`.
        prefix: of the options, `validation-` for example.

    Raises:
        UserError: if a side is missing, several forms are given, a file has columns where it should
            have none, or source and target are one file.
    """
    given = [kind for kind, path in tables.items() if path is not None]
    aligned = {"source": source, "target": target}
    named = [name for name, path in aligned.items() if path is not None]
    flags = [f"--{prefix}{name}" for name in (*named, *given)]
    if not flags:
        return None
    if len(given) > 1 or (given and named):
        raise UserError(
            f"{' and '.join(flags)} are given together; give two aligned files, or one with "
            "columns."
        )
    if given:
        (kind,) = given
        return ColumnFile(path_of(tables[kind]).absolute(), kind, columns_of(columns, kind))
    if len(named) == 1:
        _refuse_lonely(named[0], path_of(aligned[named[0]]), prefix)
    files = AlignedFiles(path_of(source).absolute(), path_of(target).absolute())
    if columns is not None and not prefix:
        raise UserError(f"--columns is of files with columns, and {files} have one text a line.")
    return files


def _refuse_lonely(name: str, path: Place, prefix: str) -> None:
    """Say what is missing beside the one aligned file that was given."""
    other = "target" if name == "source" else "source"
    if path.is_file() and (kind := _columns_in(path)):
        raise UserError(
            f"{path} has several columns; give it as --{prefix}{kind} instead of --{prefix}{name}."
        )
    raise UserError(
        f"--{prefix}{name} needs --{prefix}{other}, the file of the other side; a file that has "
        f"both sides is given as --{prefix}tsv, --{prefix}csv or --{prefix}jsonl."
    )


def _are_one_file(source: Place, target: Place) -> bool:
    if isinstance(source, Path) and isinstance(target, Path):
        return source.exists() and target.exists() and source.samefile(target)
    return str(source) == str(target)


def _texts_in(path: Place) -> list[str]:
    """Those of the first lines that something can be learned from: not blank, not endless."""
    seen = itertools.islice(read_lines(path), _SEEN)
    return [line for line in seen if line and line.strip() and len(line) <= _LONGEST_SEEN]


def _columns_in(path: Place) -> str | None:
    """The kind of the file if its first lines have columns, all of them."""
    seen = _texts_in(path)
    if not seen:
        return None
    if all("\t" in line.strip() for line in seen):
        return "tsv"
    if all(line.startswith("{") and line.rstrip().endswith("}") for line in seen):
        return "jsonl"
    widths = {len(row) for row in csv.reader(seen)}
    return "csv" if path.suffix.lower() == ".csv" and len(widths) == 1 and widths != {1} else None


def _held(text: str) -> str | None:
    return text if len(text.encode()) <= LONGEST_LINE else None


def _tsv_rows(file, path: Place) -> Iterator[tuple[int, list[str] | None]]:
    for number, line in enumerate(raw_lines(file), start=1):
        yield number, None if line is None else decoded(line, path, number).split("\t")


def _csv_rows(file, path: Place) -> Iterator[tuple[int, list[str] | None]]:
    reader = csv.reader(_whole_lines(file, path), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{path}, line {reader.line_num} is not CSV: {error}.") from error
        yield reader.line_num, row


def _whole_lines(file, path: Place) -> Iterator[str]:
    """Lines with their ends, which a quoted text may have inside."""
    readline: Callable[[int], bytes] = file.readline
    for number in itertools.count(1):
        line = readline(LONGEST_LINE + 1)
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise UserError(f"{path}, line {number} is longer than {LONGEST_LINE} bytes.")
        yield decoded(line, path, number)
