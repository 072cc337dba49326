"""Runs as the commands find them."""

from pathlib import Path

import click

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath
from keras_attn.serving.answers import Search


def import_tensorflow() -> None:
    """Import TensorFlow without what it prints."""
    from keras_attn.quiet import import_tensorflow

    import_tensorflow()


def require_run_directory(run_path: Path | RemotePath) -> None:
    """Raise `UserError` if there is no such directory."""
    if run_path.is_file():
        raise UserError(f"{run_path} is a file; give the directory of a run.")
    if not run_path.is_dir():
        raise UserError(f"There is no run directory {run_path}; train first.")


def loaded(run_path: Path | RemotePath, recipe_name: str | None, search: Search | None = None):
    """The recipe of a run, and its trained model with the search that was asked for."""
    require_run_directory(run_path)
    import_tensorflow()
    from keras_attn.recipes.run import load
    from keras_attn.training import RunDirectory

    recipe, model = load(RunDirectory(run_path), recipe_name)
    if search is not None and not search.is_greedy:
        model = model.with_search(search)
    return recipe, model


def tell_of_cut(numbers: list[int]) -> None:
    """Say on standard error which lines were longer than the model reads."""
    if numbers:
        named = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
        click.echo(
            f"Longer than the model reads, so that the end was left out: {len(numbers)} of the "
            f"lines ({named}).",
            err=True,
        )
