"""keras-attn predict: a line answered with a line."""

import codecs
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import click

from keras_attn.cli.options import (
    PLACE,
    recipe_option,
    run_option,
    search_of,
    search_options,
)
from keras_attn.cli.runs import loaded, tell_of_cut
from keras_attn.errors import UserError

_AHEAD = 2_048  # lines of a file that are read before the first is answered
_AHEAD_OF_PIPE = 64  # of what may be waiting for an answer


@click.command()
@run_option
@recipe_option
@click.option(
    "--input", "input_path", type=PLACE, help="Lines to answer.  [default: standard input]"
)
@click.option("--output", "output_path", type=PLACE, help="Answers.  [default: standard output]")
@click.option("--scores", is_flag=True, help="Put the score and a tab before each answer.")
@click.option(
    "--n-best",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Answers to each line; above 1, the number of the line and a tab stand before each.",
)
@search_options
def predict(
    run_path: Path,
    recipe: str | None,
    input_path: Path | None,
    output_path: Path | None,
    scores: bool,
    n_best: int,
    **search,
):
    """Answer every line of a file, or of standard input, with a line.

    The answers stand in the order of the lines, and an empty line has an empty answer. With
    `--n-best` a line has several answers, the best first.
    """
    recipe, model = loaded(run_path, recipe, search_of(**search, n_best=n_best))
    from keras_attn.recipes.answering import answered

    with (
        _opened(input_path) as (lines, total, ahead),
        _progress(output_path, total) as count,
        _writing(output_path) as write,
    ):
        cut = []
        found = answered(model, lines, window=ahead, count=count)
        for number, (_, answer) in enumerate(found, start=1):
            if answer.is_cut:
                cut.append(number)
            if scores and answer.scores is None:
                raise UserError(f"The recipe {recipe.name} gives no scores; leave --scores out.")
            for line in _lines_of(number, answer, scores, n_best):
                write(line)
    tell_of_cut(cut)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines as bytes: only a newline ends one, and what is not UTF-8 is the tokenizer's to mend."""
    mark = codecs.BOM_UTF8  # what some editors put in front of a file
    for line in file:
        yield line.removeprefix(mark).removesuffix(b"\n").removesuffix(b"\r")
        mark = b""


def _lines_of(number: int, answer, scores: bool, n_best: int) -> Iterable[str]:
    for rank, text in enumerate(answer.texts[:n_best]):
        columns = [f"{number}"] if n_best > 1 else []
        columns += [f"{answer.scores[rank]:.4f}"] if scores else []
        # A line for an answer, whatever was spelled in bytes.
        yield "\t".join([*columns, text.replace("\n", " ")])


@contextmanager
def _opened(path: Path | None) -> Iterator[tuple[Iterator[bytes], int | None, int]]:
    """The lines, how many there are if that is known, and how many may be read ahead."""
    if path is None:
        file = sys.stdin.buffer
        yield lines_of(file), None, _AHEAD if file.seekable() else _AHEAD_OF_PIPE
        return
    from keras_attn.data.aligned_text import count_lines, opened_text

    total = count_lines(path)
    with opened_text(path) as file:
        yield lines_of(file), total, _AHEAD


def _progress(output: Path | None, total: int | None):
    """Counts on standard error, except where the answers themselves are progress."""
    from keras_attn.counted import counter

    if output is None and sys.stdout.isatty():
        return nullcontext(lambda number: None)
    return counter("Lines answered", total)


@contextmanager
def _writing(path: Path | None):
    if path is None:
        yield click.echo
        return
    from keras_attn.files import written_whole

    with written_whole(path) as file:
        yield lambda line: file.write(f"{line}\n".encode())
