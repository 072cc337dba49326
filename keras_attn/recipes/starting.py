"""A run that begins with what another one has learned."""

from pathlib import Path

import keras

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import RemotePath
from keras_attn.recipes import settings_class
from keras_attn.recipes.recipe import Recipe
from keras_attn.recipes.settings import settings_of
from keras_attn.training import RunDirectory, load_checkpoint
from keras_attn.training.checkpoint import read_progress


def best_checkpoint(run: RunDirectory) -> Path | RemotePath:
    """Of the best checkpoint and the average of the last ones that with the better validation.

    It is the last checkpoint if nothing has been validated yet.

    Raises:
        UserError: if there is none.
    """
    validated = [path for path in (run.average_checkpoint, run.best_checkpoint) if path.exists()]
    others = [path for path in (run.last_checkpoint, run.previous_checkpoint) if path.exists()]
    if not validated and not others:
        raise UserError(f"{run.path} has no checkpoint yet; train first.")
    scores = {path: read_progress(path)["best"] for path in validated}
    return max(scores, key=scores.get) if scores else others[0]


def take_vocabulary(origin: RunDirectory, run: RunDirectory, recipe: Recipe) -> None:
    """Copy what the ids of the other run's model mean, unless this run has it.

    Raises:
        UserError: if the other run has no such file, or nothing to begin with.
    """
    for name in recipe.vocabulary_files:
        if run.has(name):
            continue  # the other run is not needed any more
        best_checkpoint(origin)
        if not origin.has(name):
            raise UserError(
                f"{origin.path} has no {name}, the vocabulary that a run of the recipe "
                f"{recipe.name} begins with; give a run of that recipe as --init-from."
            )
        content = origin.read_bytes(name)
        with written_whole(run.path / name) as file:
            file.write(content)


def take_weights(origin: RunDirectory, model: keras.Model, recipe: Recipe) -> None:
    """Set a model to the best weights of another run.

    Raises:
        UserError: if they are those of a model of another shape; the sentence names the settings in
            which the runs differ.
    """
    try:
        load_checkpoint(best_checkpoint(origin), model)
    except UserError as error:
        hint = _differing(origin.description()["settings"], recipe)
        raise UserError(f"The weights of {origin.path} do not fit: {error}{hint}") from error


def _differing(there: dict, recipe: Recipe) -> str:
    """A sentence about the sizes and choices of the other run that are not those of the recipe."""
    known = settings_of(settings_class(recipe.name))
    differing = [
        f"{known[name].flag} {value}"
        for name, value in there.items()
        if name in known
        and not known[name].is_file
        and known[name].kind is not float
        and value not in (None, recipe.settings.get(name))
    ]
    return f" That run has {', '.join(differing)}." if differing else ""
