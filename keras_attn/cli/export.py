"""keras-attn export: a trained model as a SavedModel."""

from pathlib import Path

import click

from keras_attn.cli.options import PATH, recipe_option, run_option, search_of, search_options
from keras_attn.cli.runs import loaded


@click.command()
@run_option
@recipe_option
@click.option(
    "--directory",
    type=PATH,
    required=True,
    help="The model's base path; the next version is written below it.",
)
@search_options
def export(run_path: Path, recipe: str | None, directory: Path, **search):
    """Write the trained model as the next version of a SavedModel."""
    _, model = loaded(run_path, recipe, search_of(**search))
    export_model(model, directory)


def export_model(model, directory: Path) -> Path:
    """Write the next version and say so; its path."""
    from keras_attn.serving import export

    version = export(model, directory)
    click.echo(f"Exported {version}")
    return version
