"""Train a recipe: a command for each, whose options are its settings."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from keras_attn.cli.options import PATH, PLACE
from keras_attn.cli.runs import import_tensorflow
from keras_attn.errors import UserError
from keras_attn.kept_memory import keep_freed_memory
from keras_attn.recipes import NAMES, Entry, entry
from keras_attn.recipes.settings import FILES, Option, flag_of

_TRAINING = {
    "run": click.Option(
        ["--run", "run_path"], type=PLACE, help="The run directory.  [default: runs/RECIPE]"
    ),
    "config": click.Option(
        ["--config"], type=PLACE, help="A YAML file of settings; options that are typed come first."
    ),
    "init_from": click.Option(
        ["--init-from"], type=PLACE, help="Begin with the weights of another run of this recipe."
    ),
    "patience": click.Option(
        ["--patience"],
        type=click.IntRange(min=1),
        help="End early after so many validations without a better one.",
    ),
    "tensorboard": click.Option(
        ["--tensorboard"], type=PATH, help="Write curves for TensorBoard to this directory."
    ),
    "strategy": click.Option(
        ["--strategy"],
        type=click.Choice(["none", "mirrored", "multi_worker", "tpu"]),
        default="none",
        show_default=True,
        help="The devices: one, all GPUs here, the processes in TF_CONFIG, a TPU.",
    ),
    "checkpoint_steps": click.Option(
        ["--checkpoint-steps"],
        type=click.IntRange(min=1),
        help="The most steps between two checkpoints.  [default: those of a minute]",
    ),
}


class _Recipes(click.Group):
    """A command for each recipe, made when it is asked for."""

    def list_commands(self, context):
        return list(NAMES)

    def get_command(self, context, name):
        known = entry(name)
        command = _RecipeCommand(
            name,
            params=[
                *(_option(option, known) for option in known.options.values()),
                *_budget(known),
                *_TRAINING.values(),
            ],
            callback=lambda **given: train_recipe(name, **given),
            help=f"Train {name}: {known.summary}. Or go on with it where it stopped.",
            short_help=known.summary,
        )
        command.known = known
        return command


class _RecipeCommand(click.Command):
    """Refuses an option that the recipe does not take in one sentence."""

    known: Entry

    def parse_args(self, context, arguments):
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            takes = ", ".join(map(flag_of, self.known.options))
            raise UserError(
                f"The recipe {self.name} takes no {error.option_name}; it takes {takes}, and "
                f"{', '.join(flag.opts[0] for flag in _TRAINING.values())}."
            ) from error


@click.group(cls=_Recipes, invoke_without_command=True, subcommand_metavar="[RECIPE] [OPTIONS]...")
@click.option("--run", "run_path", type=PLACE, help="A run to go on with, as it was begun.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps at which it ends.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="Minutes after which it ends."
)
@click.pass_context
def train(context, run_path: Path | None, steps: int | None, minutes: float | None):
    """Train RECIPE, or go on with a run where it stopped.

    `keras-attn train RECIPE --help` says what may be set of it. `keras-attn train --run RUN` goes
    on with what the run was begun with.
    """
    if context.invoked_subcommand is not None:
        if run_path or steps or minutes:
            raise UserError("Give the options behind the name of the recipe.")
        return
    if run_path is None:
        click.echo(context.get_help())
        return
    recipe_name = _kept(run_path).get("recipe")
    if recipe_name is None:
        raise UserError(f"There is no run in {run_path} to go on with: name a recipe to begin one.")
    train_recipe(recipe_name, run_path, steps=steps, minutes=minutes)


def train_recipe(
    recipe_name: str,
    run_path: Path | None = None,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    strategy: str = "none",
    checkpoint_steps: int | None = None,
    patience: int | None = None,
    tensorboard: Path | None = None,
    init_from: Path | None = None,
    config: Path | None = None,
    **typed,
) -> None:
    """Train a recipe, or exit if a signal ended it.

    Settings are those that were typed, then those of the configuration, then those that the run was
    begun with, then the defaults.
    """
    if minutes is not None and not math.isfinite(minutes):
        raise UserError(f"--minutes must be a number. Received: {minutes}.")
    run_path = run_path or Path("runs") / recipe_name
    kept = _kept(run_path)
    configured = {} if config is None else _configured(config, recipe_name)
    typed = {name: value for name, value in typed.items() if value is not None}
    steps = steps or configured.pop("steps", None)
    minutes = minutes or configured.pop("minutes", None)
    if kept.get("recipe", recipe_name) == recipe_name:
        settings = {**kept.get("settings", {}), **configured, **typed}
    else:
        settings = {**configured, **typed}  # and the run is refused
    _require_two_files(settings)
    keep_freed_memory()
    import_tensorflow()
    from keras_attn.training import Budget, RunDirectory, make_strategy

    devices = make_strategy(strategy)  # before anything that TensorFlow computes
    from keras_attn.recipes import make_recipe
    from keras_attn.recipes.run import train as train_run

    recipe, run = make_recipe(recipe_name, **settings), RunDirectory(run_path)
    if steps or minutes:
        budget = Budget(steps, minutes)
    else:
        budget = Budget(**kept["budget"]) if kept.get("budget") else recipe.budget
    signal_number = train_run(
        recipe,
        run,
        budget,
        devices,
        every_steps=checkpoint_steps,
        patience=patience,
        tensorboard=tensorboard,
        init_from=None if init_from is None else RunDirectory(init_from),
    )
    if signal_number is not None:
        click.echo("Stopped; the same command goes on from here.", err=True)
        sys.exit(128 + signal_number)


def _option(option: Option, known: Entry) -> click.Option:
    """A setting as an option; its default is said and not given, for a run may have another."""
    kind = {int: int, float: float, str: str, bool: click.BOOL}[option.type]
    if option.name in FILES:
        kind = PLACE
    elif option.choices:
        kind = click.Choice(option.choices)
    default = _default(option)
    told = f"{option.help}{_whose(option, known)}"
    told = told if default is None else f"{told}  [default: {default}]"
    return click.Option([flag_of(option.name), option.name], type=kind, help=told)


def _whose(option: Option, known: Entry) -> str:
    """Which models have it, where a recipe has several and not all do."""
    models = known.options["model"].choices if "model" in known.options else ()
    some = [model for model in option.defaults if model]
    return f"  ({', '.join(some)})" if some and len(some) < len(models) else ""


def _default(option: Option) -> str | None:
    values = option.defaults
    if all(value is None for value in values.values()):
        return None
    if len(set(values.values())) == 1:
        return _shown(next(iter(values.values())))
    return ", ".join(f"{_shown(value)} of {model}" for model, value in values.items())


def _shown(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _budget(known: Entry) -> list[click.Option]:
    steps = f"  [default: {known.steps}]" if known.steps else ""
    minutes = f"  [default: {known.minutes:g}]" if known.minutes else ""
    return [
        click.Option(["--steps"], type=click.IntRange(min=1), help=f"Training steps.{steps}"),
        click.Option(
            ["--minutes"],
            type=click.FloatRange(min=0, min_open=True),
            help=f"Minutes of training.{minutes}",
        ),
    ]


def _kept(run_path: Path) -> dict:
    """The recipe, the settings and the budget that a run was begun with; nothing of a new one."""
    import json

    content = {}
    for name in ("settings.json", "budget.json"):
        path = run_path / name
        if path.is_file():
            try:
                found = json.loads(path.read_bytes())
            except ValueError as error:
                raise UserError(f"{path} is not valid JSON: {error}.") from error
            content |= {"budget": found} if name == "budget.json" else found
    return content


def _configured(path: Path, recipe_name: str) -> dict:
    """The settings in a file, and `steps` and `minutes` if they are there."""
    import yaml

    try:
        found = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{path} does not hold settings: write `name: value`, one a line.")
    known = {*entry(recipe_name).options, "steps", "minutes"}
    settings = {str(name).replace("-", "_"): value for name, value in found.items()}
    for name in settings:
        if name not in known:
            raise UserError(
                f"{path} sets {name}, which the recipe {recipe_name} does not have; it has "
                f"{', '.join(sorted(known))}."
            )
    return settings


def _require_two_files(settings: Mapping) -> None:
    """Raise `UserError` where a text is given as its own translation."""
    for prefix in ("", "validation_"):
        source, target = settings.get(f"{prefix}source"), settings.get(f"{prefix}target")
        if source is not None and str(source) == str(target):
            raise UserError(
                f"{flag_of(prefix + 'source')} and {flag_of(prefix + 'target')} are the same file, "
                f"{source}: give a file of sentences and a file of their translations."
            )
