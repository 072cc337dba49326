"""keras-attn evaluate: the metrics of a trained model."""

from pathlib import Path

import click

from keras_attn.cli.options import (
    pair_options,
    recipe_option,
    run_option,
    search_of,
    search_options,
)
from keras_attn.cli.runs import loaded, tell_of_cut


@click.command()
@run_option
@recipe_option
@pair_options
@search_options
def evaluate(
    run_path: Path,
    recipe: str | None,
    source: Path | None,
    target: Path | None,
    tsv: Path | None,
    csv: Path | None,
    jsonl: Path | None,
    columns: str | None,
    **search,
):
    """Print the metrics of a model on your files, or else on the recipe's own test data.

    Standard error says what the test data are, and whether the model was chosen by them.
    """
    asked = search_of(**search, n_best=1)
    tables = {"tsv": tsv, "csv": csv, "jsonl": jsonl}
    recipe, model = loaded(run_path, recipe, asked)
    from keras_attn.data.pair_files import pair_files

    files = pair_files(source, target, tables, columns)
    if files is not None:
        print_metrics(_scores(recipe, model, files))
        return
    click.echo(f"Evaluated on {recipe.test_data}", err=True)
    print_metrics(recipe.evaluate(model))


def _scores(recipe, model, files) -> dict[str, float | str]:
    """The metrics of the answers to all sources of the files."""
    from keras_attn.counted import counter
    from keras_attn.data.pair_files import texts_of
    from keras_attn.recipes.answering import answered

    files.check()
    sources, references = texts_of(files)
    with counter("Lines answered", len(sources)) as count:
        found = [answer for _, answer in answered(model, sources, window=len(sources), count=count)]
    tell_of_cut([number for number, answer in enumerate(found, start=1) if answer.is_cut])
    return recipe.score([answer.texts[0] for answer in found], references)


def print_metrics(metrics: dict[str, float | str]) -> None:
    """A line for each metric."""
    for name, value in metrics.items():
        click.echo(f"{name}: {value if isinstance(value, str) else f'{value:.4f}'}")
