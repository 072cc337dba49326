"""A recipe run in a directory: trained, gone on with, and loaded again."""

from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.recipe import Recipe
from keras_attn.serving.text_model import TextModel
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    KeepSnapshots,
    Pace,
    ProgressBar,
    RunDirectory,
    StopOnSignal,
    TensorBoardCurves,
    fit,
    load_average,
    load_checkpoint,
    save_checkpoint,
    snapshots,
)


def train(
    recipe: Recipe,
    run: RunDirectory,
    budget: Budget,
    patience: int | None = None,
    tensorboard: Path | None = None,
) -> int | None:
    """Train a recipe until its budget is used up, from its last checkpoint if there is one.

    Ctrl-C and SIGTERM end the training after the running step, with a checkpoint. At the end the
    mean of the last checkpoints is validated and kept, if the recipe asks for it.

    Args:
        recipe, run, budget: what is trained, where it is kept, and for how long.
        patience: training ends early after so many validations without a better one.
        tensorboard: directory of the curves for TensorBoard; none are written if not given.

    Returns:
        The number of the signal that ended the training, or None.

    Raises:
        UserError: if the directory belongs to another recipe or other settings.
    """
    _prepare(recipe, run)
    model, optimizer = recipe.build(run), recipe.optimizer()
    optimizer.build(model.trainable_variables)
    progress = {"step": 0, "seconds": 0.0}
    if run.last_checkpoint.exists():
        progress = load_checkpoint(run.last_checkpoint, model, optimizer)
    step, stale = int(progress["step"]), int(progress.get("stale", 0))
    is_stale = patience is not None and stale >= patience
    if is_stale or budget.used(step, progress["seconds"]) >= 1.0:
        return None
    pace = Pace(budget, recipe.learning_rate, progress["seconds"])
    bar = ProgressBar(recipe.name, used=lambda: pace.used)
    text_model = recipe.text_model(model, run)
    observers = [bar, *([] if tensorboard is None else [TensorBoardCurves(tensorboard)])]

    def validate() -> dict[str, float]:
        metrics = recipe.validate(text_model)
        run.record({"step": pace.step, "minutes": pace.seconds / 60, **metrics})
        for curves in observers[1:]:
            curves.add(metrics, pace.step)
        return metrics

    keeping = KeepCheckpoints(
        run,
        pace,
        validate=validate,
        validations=recipe.validations,
        best=progress.get("best", float("-inf")),
        stale=stale,
        patience=patience,
        report=bar.show,
    )
    averaging = [KeepSnapshots(run, pace, recipe.averaged)] if recipe.averaged else []
    interruption = StopOnSignal()
    fit(
        model,
        recipe.batches(run),
        budget.steps,
        optimizer=optimizer,
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
        initial_step=step,
        callbacks=[interruption, pace, *observers, *averaging, keeping],
    )
    if interruption.received and pace.used < 1.0:
        return interruption.received
    _keep_average(recipe, run, model, text_model)
    return None


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
    if not checkpoints and not run.last_checkpoint.exists():
        raise UserError(f"{run.path} has no checkpoint yet; train first.")
    model = recipe.build(run)
    scores = {path: load_checkpoint(path, model)["best"] for path in checkpoints}
    load_checkpoint(max(scores, key=scores.get, default=run.last_checkpoint), model)
    return recipe, recipe.text_model(model, run)


def _keep_average(recipe: Recipe, run: RunDirectory, model, text_model: TextModel) -> None:
    """Validate the mean of the run's snapshots and keep it; the model is left with it."""
    paths = snapshots(run)
    if len(paths) < 2:
        return
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
