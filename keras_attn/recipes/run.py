"""A recipe run in a directory: trained, gone on with, and loaded again."""

import functools
import math
import signal
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.paths import path_of
from keras_attn.recipes import make_recipe
from keras_attn.recipes.recipe import Recipe
from keras_attn.serving.text_model import TextModel
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    KeepHistory,
    KeepSnapshots,
    Pace,
    ProgressBar,
    RunDirectory,
    StopOnSignal,
    Stopwatch,
    TensorBoardCurves,
    ValidationSchedule,
    Workers,
    fit,
    load_average,
    load_checkpoint,
    make_strategy,
    resume,
    save_checkpoint,
    snapshots,
)


@dataclass(frozen=True)
class _Options:
    every_steps: int | None
    patience: int | None
    tensorboard: Path | None


def train(
    recipe: Recipe,
    run: RunDirectory,
    budget: Budget,
    strategy: tf.distribute.Strategy | None = None,
    every_steps: int | None = None,
    patience: int | None = None,
    tensorboard: Path | None = None,
) -> int | None:
    """Train a recipe until its budget is used up, from its last checkpoint if there is one.

    Ctrl-C and SIGTERM end the training after the running step, with a checkpoint. Of several
    workers the first writes the checkpoints, validates and shows progress; the others prepare
    their data in directories of their own below the run. At the end the mean of the last
    checkpoints is validated and kept, if the recipe asks for it.

    Args:
        recipe: what is trained.
        run: the directory of the run.
        budget: when it ends.
        strategy: of `training.make_strategy`; one device by default.
        every_steps: the most steps between two checkpoints; by default a minute goes by.
        patience: training ends early after so many validations without a better one.
        tensorboard: directory of the curves for TensorBoard; none are written if not given.

    Returns:
        The number of the signal that ended the training, or None.

    Raises:
        UserError: if the directory belongs to another recipe or other settings, or a worker is
            lost.
    """
    strategy = strategy or make_strategy("none")
    workers = Workers(strategy)
    with workers.together():
        options = _Options(every_steps, patience, tensorboard)
        return _train(recipe, run, budget, strategy, workers, options)


def _train(recipe, run, budget, strategy, workers, options) -> int | None:
    workers.require_same("recipe and settings", _shared_settings(recipe))
    own = run if workers.is_chief else RunDirectory(run.path / f"worker-{workers.index}")
    _prepare(recipe, own)
    with strategy.scope():
        model, optimizer = recipe.build(own), recipe.optimizer()
        optimizer.build(model.trainable_variables)
    progress = resume(run, model, optimizer, workers=workers, report=run.log)
    step, seconds = int(progress.get("step", 0)), progress.get("seconds", 0.0)
    is_stale = options.patience is not None and progress.get("stale", 0) >= options.patience
    if is_stale or budget.used(step, seconds) >= 1.0:
        return None
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    batches = recipe.fixed_batches(own) if is_tpu else recipe.batches(own)
    batches.restore(progress)
    stopwatch = Stopwatch()
    clock = functools.partial(workers.clock, stopwatch) if budget.minutes else stopwatch
    pace = Pace(budget, recipe.learning_rate, seconds, clock)
    interruption = StopOnSignal()
    callbacks = [interruption, pace]
    if workers.is_chief:
        callbacks += _shown_and_kept(
            recipe, run, model, pace, stopwatch, progress, options, batches
        )
    fit(
        model,
        batches,
        budget.steps,
        optimizer=optimizer,
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
        initial_step=step,
        callbacks=callbacks,
        strategy=strategy,
    )
    if pace.used < 1.0 and workers.any(interruption.received is not None):
        return interruption.received or signal.SIGTERM  # that another worker received
    if workers.is_chief:
        _keep_average(recipe, run)
    return None


def _shared_settings(recipe: Recipe) -> dict:
    """Of what makes a run, that in which no worker may differ: of paths, the last name."""
    files = ("source", "target", "validation_source", "validation_target")
    named = {k: path_of(v).name if k in files else v for k, v in recipe.settings.items()}
    return {"recipe": recipe.name, **named}


def _shown_and_kept(
    recipe, run, model, pace, stopwatch, progress, options, batches
) -> list[keras.callbacks.Callback]:
    """The callbacks of the worker that shows, validates and keeps."""
    at_end = 2 if recipe.averaged else 1
    schedule = ValidationSchedule(pace.budget, recipe.validations, at_end, progress)
    bar = ProgressBar(recipe.name, used=lambda: pace.used)
    text_model = recipe.text_model(model, run)
    curves = [] if options.tensorboard is None else [TensorBoardCurves(options.tensorboard)]

    def warm_up():
        with stopwatch.held(), bar.busy("compiling the search"):
            text_model.warm_up()

    def validate() -> dict[str, float]:
        with bar.busy("validating"):
            metrics = recipe.validate(text_model, schedule.limits(pace.used))
        run.record({"step": pace.step, "minutes": pace.seconds / 60, **metrics})
        for each in curves:
            each.add(metrics, pace.step)
        return metrics

    keeping = KeepCheckpoints(
        run,
        pace,
        validate=validate,
        validations=schedule,
        warm_up=warm_up,
        best=progress.get("best", -math.inf),
        stale=int(progress.get("stale", 0)),
        patience=options.patience,
        report=bar.show,
        every_steps=options.every_steps,
        data=batches,
    )
    averaging = [KeepSnapshots(run, pace, recipe.averaged)] if recipe.averaged else []
    return [bar, KeepHistory(run), *curves, *averaging, keeping]


def load(run: RunDirectory, recipe_name: str | None = None) -> tuple[Recipe, TextModel]:
    """The recipe of a run directory and its trained model.

    Of the best checkpoint and the average of the last ones it is the one with the better
    validation; it is the last checkpoint if nothing has been validated yet.

    Raises:
        UserError: if there is no trained run, or it is not of the recipe that was asked for.
    """
    description = run.description()
    if recipe_name not in (None, description["recipe"]):
        raise UserError(
            f"{run.path} is a run of the recipe {description['recipe']!r}, not of {recipe_name!r}."
        )
    recipe = make_recipe(description["recipe"], **description["settings"])
    checkpoints = [path for path in (run.average_checkpoint, run.best_checkpoint) if path.exists()]
    unvalidated = [path for path in (run.last_checkpoint, run.previous_checkpoint) if path.exists()]
    if not checkpoints and not unvalidated:
        raise UserError(f"{run.path} has no checkpoint yet; train first.")
    model = recipe.build(run)
    scores = {path: load_checkpoint(path, model)["best"] for path in checkpoints}
    load_checkpoint(max(scores, key=scores.get) if scores else unvalidated[0], model)
    return recipe, recipe.text_model(model, run)


def _keep_average(recipe: Recipe, run: RunDirectory) -> None:
    """Validate the mean of the run's snapshots and keep it."""
    paths = snapshots(run)
    if len(paths) < 2:
        return
    model = recipe.build(run)  # one that no strategy shares out
    text_model = recipe.text_model(model, run)
    progress = load_average(paths, model)
    metrics = recipe.validate(text_model)
    run.log(f"average of {len(paths)} checkpoints: {metrics}")
    run.record(
        {
            "step": progress["step"],
            "minutes": progress["seconds"] / 60,
            **metrics,
            "averaged": len(paths),
        }
    )
    run.flush()
    score = next(iter(metrics.values()))
    save_checkpoint(run.average_checkpoint, model, None, {**progress, "best": score})


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
