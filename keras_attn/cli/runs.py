"""Trained runs, as the commands find them."""

import math
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.protocols import SupportsBeam


def loaded(
    run_path: Path,
    recipe_name: str | None,
    beam_width: int = 1,
    length_penalty: float = 0.0,
    n_best: int | None = None,
):
    """The recipe of a run, and its trained model with the search that was asked for."""
    if beam_width == 1 and length_penalty:
        raise UserError("--length-penalty needs a beam: give --beam-width 2 or more too.")
    if not math.isfinite(length_penalty):
        raise UserError(f"--length-penalty must be a number. Received: {length_penalty}.")
    require_run_directory(run_path)
    import_tensorflow()
    from keras_attn.recipes.run import load
    from keras_attn.training import RunDirectory

    recipe, model = load(RunDirectory(run_path), recipe_name)
    if beam_width > 1:
        if not isinstance(model, SupportsBeam):
            raise UserError(f"The recipe {recipe.name} searches nothing; leave --beam-width out.")
        model = model.with_beam(beam_width, length_penalty, n_best)
    return recipe, model


def require_run_directory(run_path: Path) -> None:
    """Raise `UserError` unless there is a directory."""
    if run_path.is_file():
        raise UserError(f"{run_path} is a file; give the directory of a run.")
    if not run_path.is_dir():
        raise UserError(f"There is no run directory {run_path}; train first.")


def import_tensorflow() -> None:
    """Import TensorFlow without what it prints."""
    from keras_attn.quiet import import_tensorflow

    import_tensorflow()


def print_metrics(metrics: dict[str, float | str]) -> None:
    import click

    for name, value in metrics.items():
        click.echo(f"{name}: {value if isinstance(value, str) else f'{value:.4f}'}")
