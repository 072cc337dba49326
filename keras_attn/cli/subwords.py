"""keras-attn tokenize: what a run has learned to cut text into."""

import os
import sys
from pathlib import Path

import click

from keras_attn.cli.options import run_option
from keras_attn.cli.predict import lines_of
from keras_attn.cli.runs import import_tensorflow, require_run_directory


@click.command()
@run_option
@click.option("--merges", type=click.IntRange(min=1), help="Print so many first merges instead.")
@click.argument("texts", nargs=-1)
def tokenize(run_path: Path, merges: int | None, texts: tuple[str, ...]):
    """Print the subwords of each of TEXTS, or of every line of standard input."""
    from keras_attn.recipes.subword_file import read_subword_model

    require_run_directory(run_path)
    model = read_subword_model(run_path)
    import_tensorflow()
    from keras_attn.text.subwords import SubwordTokenizer, first_merges

    if merges:
        for left, right in first_merges(model, merges):
            click.echo(f"{left} + {right} = {left}{right}")
        return
    tokenizer = SubwordTokenizer(model)
    for text in map(os.fsencode, texts) if texts else lines_of(sys.stdin.buffer):
        pieces = tokenizer.split([text]).values.numpy()
        click.echo(" ".join(piece.decode() for piece in pieces))
