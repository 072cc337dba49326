"""A recipe run in a directory: trained, gone on with, and loaded again."""

from collections.abc import Iterable

import keras

from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.recipe import Recipe
from keras_attn.serving.text_model import TextModel
from keras_attn.training.checkpoint import load_checkpoint, save_checkpoint
from keras_attn.training.fit import fit
from keras_attn.training.run_directory import RunDirectory


def train(
    recipe: Recipe,
    run: RunDirectory,
    steps: int,
    callbacks: Iterable[keras.callbacks.Callback] = (),
) -> int:
    """Train a recipe to `steps`, from its last checkpoint if there is one, and save it.

    Returns:
        The step reached: less than `steps` if a callback stopped the training.

    Raises:
        UserError: if the directory belongs to another recipe or other settings.
    """
    run.begin(recipe.name, {**recipe.settings, "steps": steps})
    if not run.last_checkpoint.exists():
        recipe.prepare(run)
    model = recipe.build(run)
    optimizer = recipe.optimizer(steps)
    optimizer.build(model.trainable_variables)
    step = 0
    if run.last_checkpoint.exists():
        step = load_checkpoint(run.last_checkpoint, model, optimizer)
    if step < steps:
        step = fit(
            model,
            recipe.batches(run),
            steps,
            optimizer=optimizer,
            clip_norm=recipe.clip_norm,
            initial_step=step,
            callbacks=callbacks,
        )
        save_checkpoint(run.last_checkpoint, model, optimizer, step)
    return step


def load(run: RunDirectory, recipe_name: str | None = None) -> tuple[Recipe, TextModel]:
    """The recipe of a run directory and its trained model.

    Raises:
        UserError: if there is no trained run, or it is not of the recipe that was asked for.
    """
    description = run.description()
    if recipe_name not in (None, description["recipe"]):
        raise UserError(
            f"{run.path} is a run of the recipe {description['recipe']!r}, not of {recipe_name!r}."
        )
    settings = {k: v for k, v in description["settings"].items() if k != "steps"}
    recipe = make_recipe(description["recipe"], **settings)
    if not run.last_checkpoint.exists():
        raise UserError(f"{run.path} has no checkpoint yet; train first.")
    model = recipe.build(run)
    load_checkpoint(run.last_checkpoint, model)
    return recipe, recipe.text_model(model, run)
