"""Score a trained run, and answer texts with it."""

import itertools
import sys
from pathlib import Path

import click

from keras_attn.cli.lines import lines_of_standard_input
from keras_attn.cli.options import recipe_option, run_option, search_options
from keras_attn.cli.runs import loaded, print_metrics


@click.command()
@run_option
@recipe_option
@search_options
def evaluate(run_path: Path, recipe: str | None, **search):
    """Print the recipe's metrics, each with the data that it is of."""
    recipe, model = loaded(run_path, recipe, **search)
    print_metrics(recipe.evaluate(model))


@click.command()
@run_option
@recipe_option
@search_options
def predict(run_path: Path, recipe: str | None, **search):
    """Answer every line of standard input with a line."""
    from keras_attn.counted import counted

    _, model = loaded(run_path, recipe, **search)
    lines, asked = itertools.tee(lines_of_standard_input())
    answers = model.answer(asked)
    if not sys.stdout.isatty():  # where the answers themselves are no progress
        answers = counted(answers, "Lines answered")
    for line, answer in zip(lines, answers, strict=True):
        # A line for a line, whatever was spelled in bytes, and nothing for nothing.
        click.echo(answer.replace("\n", " ") if line.strip() else "")
