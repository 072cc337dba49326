"""A recipe run in a directory: trained, gone on with, and loaded again."""

import functools
import math
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.paths import path_of
from keras_attn.recipes import NAMES, make_recipe, settings_class
from keras_attn.recipes.packages import require_packages
from keras_attn.recipes.recipe import AnsweringModel, Recipe
from keras_attn.recipes.settings import settings_of
from keras_attn.recipes.starting import best_checkpoint, take_vocabulary, take_weights
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
    snapshots,
)
from keras_attn.training.averaging import average_is_due, save_average
from keras_attn.training.checkpoint import read_progress
from keras_attn.training.disk_space import require_disk_space


@dataclass(frozen=True)
class _Options:
    budget: Budget
    strategy: tf.distribute.Strategy
    every_steps: int | None
    patience: int | None
    tensorboard: Path | None
    init_from: RunDirectory | None

    @property
    def notes(self) -> dict:
        """What the run keeps, so that it can go on without being told again."""
        ends = {
            "steps": self.budget.steps,
            "minutes": self.budget.minutes,
            "patience": self.patience,
        }
        begun = {} if self.init_from is None else {"init_from": str(self.init_from.path.absolute())}
        return {"ends": ends, **begun}


def train(
    recipe: Recipe,
    run: RunDirectory,
    budget: Budget,
    strategy: tf.distribute.Strategy | None = None,
    every_steps: int | None = None,
    patience: int | None = None,
    tensorboard: Path | None = None,
    *,
    init_from: RunDirectory | None = None,
) -> int | None:
    """Train a recipe until its budget is used up, from its last checkpoint if there is one.

    Ctrl-C, SIGTERM and a closed terminal end the training after the running step, with a
    checkpoint. Of several workers the first writes the checkpoints, validates and shows progress;
    the others prepare their data in directories of their own below the run. At the end the mean of
    the last checkpoints is validated and kept, if the recipe asks for it; a run that was killed
    there does that alone when it is started again. Meanwhile the directories are locked.

    Args:
        recipe: what is trained.
        run: the directory of the run.
        budget: when it ends.
        strategy: of `training.make_strategy`; one device by default.
        every_steps: the most steps between two checkpoints; by default a minute goes by.
        patience: training ends early after so many validations without a better one.
        tensorboard: directory of the curves for TensorBoard; none are written if not given.
        init_from: another run, whose best weights and whose vocabulary this one begins with.

    Returns:
        The number of the signal that ended the training, or None.

    Raises:
        UserError: if the directory belongs to another recipe or other settings or is in use by
            another process, a package is missing or the disk too full, a worker is lost, or the
            weights of the other run do not fit.
    """
    strategy = strategy or make_strategy("none")
    workers = Workers(strategy)
    with workers.together():
        options = _Options(budget, strategy, every_steps, patience, tensorboard, init_from)
        return _train(recipe, run, workers, options)


def _train(recipe, run, workers, options) -> int | None:
    workers.require_same("recipe and settings", _shared_settings(recipe))
    own = run if workers.is_chief else RunDirectory(run.path / f"worker-{workers.index}")
    require_packages(recipe.packages(own), f"The recipe {recipe.name}")
    with own.locked():
        _prepare(recipe, own, options)
        with options.strategy.scope():
            model, optimizer = recipe.build(own), recipe.optimizer()
            optimizer.build(model.trainable_variables)
        if options.init_from and workers.is_chief and not _has_begun(run):
            try:
                take_weights(options.init_from, model, recipe)
            except UserError:
                own.forget(recipe.prepared_files)  # nothing was learned here yet
                raise
            run.log(f"Beginning with the weights of {options.init_from.path}")
        progress = resume(run, model, optimizer, workers=workers, report=run.log)
        is_trained = _is_trained(progress, options)
        if not is_trained:
            received = _fit(recipe, run, own, workers, options, model, optimizer, progress)
            if received is not None:
                return received
        if not workers.is_chief:
            return None
        if recipe.averaged and average_is_due(run):
            _keep_average(recipe, run, options.budget)
        elif is_trained:
            print(
                f"{recipe.name}: the run in {run.path} is finished, at step {progress['step']:.0f};"
                " more steps or minutes go on with it.",
                file=sys.stderr,
            )
    return None


def _is_trained(progress, options) -> bool:
    """Whether there is no step left, and no validation that was not brought to its end."""
    is_stale = options.patience is not None and progress.get("stale", 0) >= options.patience
    used = options.budget.used(progress.get("step", 0), progress.get("seconds", 0.0))
    return (is_stale or used >= 1.0) and not progress.get("validation_is_due")


def _fit(recipe, run, own, workers, options, model, optimizer, progress) -> int | None:
    """Train until the budget is used up; the number of the signal that came before it was."""
    if workers.is_chief:
        require_disk_space(run, model, optimizer, snapshots=recipe.averaged)
    budget = options.budget
    is_tpu = isinstance(options.strategy, tf.distribute.TPUStrategy)
    batches = recipe.fixed_batches(own) if is_tpu else recipe.batches(own)
    batches.restore(progress)
    stopwatch = Stopwatch()
    clock = functools.partial(workers.clock, stopwatch) if budget.minutes else stopwatch
    pace = Pace(budget, recipe.learning_rate, progress.get("seconds", 0.0), clock)
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
        initial_step=int(progress.get("step", 0)),
        callbacks=callbacks,
        strategy=options.strategy,
    )
    is_interrupted = workers.any(interruption.received is not None)
    if is_interrupted and (pace.used < 1.0 or recipe.averaged):
        return interruption.received or signal.SIGTERM  # that another worker received
    return None


def _shared_settings(recipe: Recipe) -> dict:
    """Of what makes a run, that in which no worker may differ: of paths, the last name."""
    known = settings_of(settings_class(recipe.name)) if recipe.name in NAMES else {}
    files = [name for name, each in known.items() if each.is_file and recipe.settings[name]]
    return {
        "recipe": recipe.name,
        **recipe.settings,
        **{name: path_of(recipe.settings[name]).name for name in files},
    }


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
        validation_is_due=progress.get("validation_is_due", False),
    )
    averaging = [KeepSnapshots(run, pace, recipe.averaged)] if recipe.averaged else []
    return [bar, KeepHistory(run), *curves, *averaging, keeping]


def load(run: RunDirectory, recipe_name: str | None = None) -> tuple[Recipe, AnsweringModel]:
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
    checkpoint = best_checkpoint(run)
    model = recipe.build(run)
    load_checkpoint(checkpoint, model)
    return recipe, recipe.text_model(model, run)


def _keep_average(recipe: Recipe, run: RunDirectory, budget: Budget) -> None:
    """Validate the mean of the run's snapshots and keep it; a damaged one is left out."""
    model = recipe.build(run)  # one that no strategy shares out
    text_model = recipe.text_model(model, run)
    progress = load_average(snapshots(run), model, report=run.log)
    count = progress["averaged"]
    if count < 2:
        run.log("There is no average: it takes two whole snapshots.")
        return
    print(f"{recipe.name}: validating the average of {count} checkpoints", file=sys.stderr)
    text_model.warm_up()  # which counts as no time of the validation
    schedule = ValidationSchedule(budget, recipe.validations, state=_state_at_end(run))
    metrics = recipe.validate(text_model, schedule.limits(used=1.0))
    save_average(run, model, progress, score=next(iter(metrics.values())))
    run.log(f"average of {count} checkpoints: {metrics}")
    run.record(
        {
            "step": progress["step"],
            "minutes": progress["seconds"] / 60,
            **metrics,
            "averaged": count,
        }
    )
    run.flush()


def _state_at_end(run: RunDirectory) -> dict:
    """The progress of the last checkpoint; nothing if it is damaged."""
    try:
        return read_progress(run.last_checkpoint)
    except UserError:
        return {}


def _has_begun(run: RunDirectory) -> bool:
    return run.last_checkpoint.exists() or run.previous_checkpoint.exists()


def _prepare(recipe: Recipe, run: RunDirectory, options: _Options) -> None:
    """Claim the directory and prepare it; a new one whose data are no good is given back."""
    is_new = not run.exists
    if not is_new:
        _require_same_beginning(run, options)
    run.begin(
        recipe.name,
        recipe.settings,
        notes=options.notes,
        completed=functools.partial(_completed, recipe.name),
    )
    try:
        if options.init_from:
            take_vocabulary(options.init_from, run, recipe)
        recipe.prepare(run)
    except UserError:
        if is_new:
            run.forget(recipe.prepared_files)
        raise


def _completed(name: str, settings: dict) -> dict:
    """The settings of a run with those that were no settings yet when it began."""
    return make_recipe(name, **settings).settings if name in NAMES else settings


def _require_same_beginning(run: RunDirectory, options: _Options) -> None:
    asked = options.notes.get("init_from")
    found = run.description().get("init_from")
    if asked is not None and asked != found:
        begun = f"with the weights of {found}" if found else "with weights of its own"
        raise UserError(
            f"{run.path} began {begun}, and --init-from is {asked}; choose another directory."
        )
