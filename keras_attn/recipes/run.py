"""A recipe run in a directory: trained, gone on with, and loaded again."""

from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.recipe import Recipe
from keras_attn.serving.text_model import TextModel
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    Pace,
    ProgressBar,
    RunDirectory,
    StopOnSignal,
    fit,
    load_checkpoint,
)


def train(recipe: Recipe, run: RunDirectory, budget: Budget) -> int | None:
    """Train a recipe until its budget is used up, from its last checkpoint if there is one.

    Ctrl-C and SIGTERM end the training after the running step, with a checkpoint.

    Returns:
        The number of the signal that ended the training, or None.

    Raises:
        UserError: if the directory belongs to another recipe or other settings.
    """
    _prepare(recipe, run)
    model, optimizer = recipe.build(run), recipe.optimizer()
    optimizer.build(model.trainable_variables)
    progress = {"step": 0, "seconds": 0.0, "best": float("-inf")}
    if run.last_checkpoint.exists():
        progress = load_checkpoint(run.last_checkpoint, model, optimizer)
    step = int(progress["step"])
    if budget.used(step, progress["seconds"]) >= 1.0:
        return None
    pace = Pace(budget, recipe.learning_rate, progress["seconds"])
    bar = ProgressBar(recipe.name, used=lambda: pace.used)
    text_model = recipe.text_model(model, run)
    keeping = KeepCheckpoints(
        run,
        pace,
        validate=lambda: recipe.validate(text_model),
        validations=recipe.validations,
        best=progress["best"],
        report=bar.show,
    )
    interruption = StopOnSignal()
    fit(
        model,
        recipe.batches(run),
        budget.steps,
        optimizer=optimizer,
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
        initial_step=step,
        callbacks=[interruption, pace, bar, keeping],
    )
    return interruption.received if pace.used < 1.0 else None


def load(run: RunDirectory, recipe_name: str | None = None) -> tuple[Recipe, TextModel]:
    """The recipe of a run directory and its trained model: the best, or else the last.

    Raises:
        UserError: if there is no trained run, or it is not of the recipe that was asked for.
    """
    description = run.description()
    if recipe_name not in (None, description["recipe"]):
        raise UserError(
            f"{run.path} is a run of the recipe {description['recipe']!r}, not of {recipe_name!r}."
        )
    recipe = make_recipe(description["recipe"], **description["settings"])
    checkpoint = run.best_checkpoint if run.best_checkpoint.exists() else run.last_checkpoint
    if not checkpoint.exists():
        raise UserError(f"{run.path} has no checkpoint yet; train first.")
    model = recipe.build(run)
    load_checkpoint(checkpoint, model)
    return recipe, recipe.text_model(model, run)


def _prepare(recipe: Recipe, run: RunDirectory) -> None:
    """Claim the directory and prepare it; a new one whose data are no good is given back."""
    is_new = not run.exists
    run.begin(recipe.name, recipe.settings)
    try:
        recipe.prepare(run)
    except UserError:
        if is_new:
            run.forget(recipe.prepared_files)
        raise
