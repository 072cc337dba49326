"""A recipe run in a directory: trained, gone on with, and loaded again."""

import math
import signal
import time

import tensorflow as tf

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
    Workers,
    fit,
    load_checkpoint,
    make_strategy,
    resume,
)


def train(
    recipe: Recipe,
    run: RunDirectory,
    budget: Budget,
    strategy: tf.distribute.Strategy | None = None,
    every_steps: int | None = None,
) -> int | None:
    """Train a recipe until its budget is used up, from its last checkpoint if there is one.

    Ctrl-C and SIGTERM end the training after the running step, with a checkpoint. Of several
    workers the first writes the checkpoints, validates and shows progress; the others prepare
    their data in directories of their own below the run.

    Args:
        recipe: what is trained.
        run: the directory of the run.
        budget: when it ends.
        strategy: of `training.make_strategy`; one device by default.
        every_steps: the most steps between two checkpoints; by default a minute goes by.

    Returns:
        The number of the signal that ended the training, or None.

    Raises:
        UserError: if the directory belongs to another recipe or other settings, or a worker is
            lost.
    """
    strategy = strategy or make_strategy("none")
    workers = Workers(strategy)
    with workers.together():
        return _train(recipe, run, budget, strategy, workers, every_steps)


def _train(recipe, run, budget, strategy, workers, every_steps) -> int | None:
    own = run if workers.is_chief else RunDirectory(run.path / f"worker-{workers.index}")
    _prepare(recipe, own)
    with strategy.scope():
        model, optimizer = recipe.build(own), recipe.optimizer()
        optimizer.build(model.trainable_variables)
    progress = resume(run, model, optimizer, workers=workers, report=run.log)
    step, seconds = int(progress.get("step", 0)), progress.get("seconds", 0.0)
    if budget.used(step, seconds) >= 1.0:
        return None
    clock = workers.clock if budget.minutes else time.monotonic
    pace = Pace(budget, recipe.learning_rate, seconds, clock)
    interruption = StopOnSignal()
    callbacks = [interruption, pace]
    if workers.is_chief:
        best = progress.get("best", -math.inf)
        callbacks += _shown_and_kept(recipe, run, model, pace, best, every_steps)
    fit(
        model,
        recipe.batches(own),
        budget.steps,
        optimizer=optimizer,
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
        initial_step=step,
        callbacks=callbacks,
        strategy=strategy,
    )
    if pace.used >= 1.0 or not workers.any(interruption.received is not None):
        return None
    return interruption.received or signal.SIGTERM  # that another worker received


def _shown_and_kept(recipe, run, model, pace, best, every_steps) -> list:
    bar = ProgressBar(recipe.name, used=lambda: pace.used)
    text_model = recipe.text_model(model, run)
    keeping = KeepCheckpoints(
        run,
        pace,
        validate=lambda: recipe.validate(text_model),
        validations=recipe.validations,
        best=best,
        report=bar.show,
        every_steps=every_steps,
    )
    return [bar, keeping]


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
    kept = (run.best_checkpoint, run.last_checkpoint, run.previous_checkpoint)
    checkpoint = next((path for path in kept if path.exists()), None)
    if checkpoint is None:
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
