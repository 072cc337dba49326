"""keras-attn train: a command for each recipe, made from the dataclass of its settings."""

import math
import sys
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.config_file import config_of, read_config
from keras_attn.cli.options import PATH, PLACE
from keras_attn.cli.runs import import_tensorflow, require_run_directory
from keras_attn.errors import UserError
from keras_attn.kept_memory import keep_freed_memory
from keras_attn.paths import RemotePath
from keras_attn.recipes import NAMES, require_recipe, settings_class, summary
from keras_attn.recipes.settings import Setting, settings_of

Place = Path | RemotePath


class _SettingType(click.ParamType):
    """A value of a recipe's setting, read by the rules of its dataclass."""

    def __init__(self, setting: Setting):
        self.name = "path" if setting.is_file else _WORDS[setting.kind]
        self._setting = setting
        self.arity = setting.words
        self.is_composite = setting.words > 1  # click then gives all words at once

    def get_metavar(self, *arguments, **options) -> str | None:
        choices = self._setting.choices
        return f"[{'|'.join(choices)}]" if choices else None

    def convert(self, value, parameter, context):
        return self._setting.read(value)


_WORDS = {int: "integer", float: "float", bool: "boolean", str: "text"}


class _RecipeCommand(click.Command):
    """The command of a recipe; an option of another recipe is answered in a sentence."""

    def parse_args(self, context, arguments):
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            taken = [option.opts[0] for option in self.params if option.opts[0] != "--help"]
            raise UserError(
                f"The recipe {self.name} takes no {error.option_name}; it takes {', '.join(taken)}."
            ) from error


class _Recipes(click.Group):
    """The commands of the recipes, each made when it is asked for."""

    def list_commands(self, context) -> list[str]:
        return list(NAMES)

    def get_command(self, context, name: str) -> click.Command:
        require_recipe(name)
        return _command_of(name)


def _run_options(steps: str, minutes: str) -> list[click.Option]:
    """The options of a run, whatever it trains; their defaults are those of a recipe."""
    return [
        click.Option(
            ["--steps"],
            type=click.IntRange(min=1),
            help=f"Training steps.  [default: {steps}]",
        ),
        click.Option(
            ["--minutes"],
            type=click.FloatRange(min=0, min_open=True),
            help=f"Minutes of training.  [default: {minutes}]",
        ),
        click.Option(
            ["--patience"],
            type=click.IntRange(min=1),
            help="End early after so many validations without a better one.  [default: never]",
        ),
        click.Option(
            ["--tensorboard"],
            type=PATH,
            help="Write curves for TensorBoard to this directory.  [default: none are written]",
        ),
        click.Option(
            ["--strategy"],
            type=click.Choice(["none", "mirrored", "multi_worker", "tpu"]),
            help="The devices: one, all GPUs here, the processes in TF_CONFIG, a TPU.  "
            "[default: none]",
        ),
        click.Option(
            ["--checkpoint-steps"],
            type=click.IntRange(min=1),
            help="The most steps between two checkpoints.  [default: those of a minute]",
        ),
    ]


def _command_of(name: str) -> click.Command:
    """`train NAME`: the settings of the recipe as options, then those of its run."""
    kind = settings_class(name)
    steps = f"{kind.default_steps}" if kind.default_steps else "no limit"
    minutes = f"{kind.default_minutes}" if kind.default_minutes else "no limit"

    def callback(run_path: Place | None, init_from: Place | None, **given):
        own = {each: given.pop(each) for each in settings_of(kind)}
        train_recipe(
            name,
            run_path or Path("runs") / name,
            {each: value for each, value in own.items() if value is not None},
            init_from=init_from,
            **given,
        )

    options = [
        click.Option(
            ["--run", "run_path"], type=PLACE, help=f"The run directory.  [default: runs/{name}]"
        ),
        click.Option(
            ["--init-from"],
            type=PLACE,
            help="A run whose weights and vocabulary this one begins with.  [default: none]",
        ),
        click.Option(
            ["--config"],
            type=PATH,
            is_eager=True,
            expose_value=False,
            callback=_take_config,
            help="Options from a YAML file, a line for each, as units: 64; those typed here win.",
        ),
        *_run_options(steps, minutes),
    ]
    return _RecipeCommand(
        name,
        params=[*map(_option_of, settings_of(kind).values()), *options],
        callback=callback,
        help=f"{kind.__doc__}\n\nA run that stopped goes on with its own settings.",
        short_help=summary(name),
    )


def _option_of(setting: Setting) -> click.Option:
    default = setting.described_default
    help = setting.help if default is None else f"{setting.help}  [default: {default}]"
    alone = {"is_flag": False, "flag_value": "true"} if setting.kind is bool else {}
    return click.Option(
        [setting.flag, setting.name], type=_SettingType(setting), help=help, **alone
    )


def _take_config(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Let the options that are not typed have the values of the file."""
    if path is not None:
        found = config_of(context.command, context.command.name, path)
        context.default_map = {**found, **(context.default_map or {})}


@click.group(cls=_Recipes, invoke_without_command=True, subcommand_metavar="[RECIPE] [OPTIONS]")
@click.option("--run", "run_path", type=PLACE, help="The run to go on with, as it was begun.")
@click.option("--config", type=PATH, help="Options from a YAML file that names its recipe.")
@click.pass_context
def train(context: click.Context, run_path: Place | None, config: Path | None, **given):
    """Train a recipe, or go on with a run where it stopped.

    `keras-attn train RECIPE --help` shows what can be set of a recipe. `keras-attn train --run DIR`
    goes on with a run: its recipe, its settings and its files are in the run.
    """
    typed = {"run_path": run_path, **given}
    typed = {name: value for name, value in typed.items() if value is not None}
    name = context.invoked_subcommand or _named_by(run_path, config)
    command = _command_of(name)
    from_file = {} if config is None else config_of(command, name, config)
    context.default_map = {name: {**from_file, **typed}}
    if context.invoked_subcommand is None:
        with command.make_context(name, [], parent=context) as inner:
            command.invoke(inner)


train.params += _run_options("the recipe's, or the run's", "the recipe's, or the run's")


def _named_by(run_path: Place | None, config: Path | None) -> str:
    """The recipe that the file names, or whose run it is."""
    if config is not None:
        name = read_config(config).get("recipe")
        if name is None:
            raise UserError(
                f"{config} names no recipe; write a line such as recipe: adding, or give the "
                "recipe: keras-attn train RECIPE --config FILE."
            )
    elif run_path is not None:
        require_run_directory(run_path)
        found = _description(run_path)
        if found is None:
            raise UserError(
                f"{run_path} is no run yet; begin one with keras-attn train RECIPE --run DIR."
            )
        name = found["recipe"]
    else:
        raise UserError(
            f"Name a recipe, one of {', '.join(NAMES)}, or give the --run to go on with."
        )
    require_recipe(name)
    return name


def train_recipe(
    name: str,
    run_path: Place,
    settings: dict[str, Any],
    *,
    init_from: Place | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    patience: int | None = None,
    tensorboard: Path | None = None,
    strategy: str | None = None,
    checkpoint_steps: int | None = None,
) -> None:
    """Train a recipe, or exit if a signal ended it.

    What is not given is as it was when the run began: its settings, its end, what it began with.
    """
    if minutes is not None and not math.isfinite(minutes):
        raise UserError(f"--minutes must be a number. Received: {minutes}.")
    if init_from is not None:
        require_run_directory(init_from)
    keep_freed_memory()
    import_tensorflow()
    from keras_attn.training import Budget, RunDirectory, make_strategy

    found = _description(run_path) or {"recipe": name, "settings": {}}
    if found["recipe"] != name:
        raise UserError(
            f"{run_path} is a run of the recipe {found['recipe']!r}, not of {name!r}; choose "
            "another directory."
        )
    made_strategy = make_strategy(strategy or "none")  # before anything that TensorFlow computes
    from keras_attn.recipes import make_recipe
    from keras_attn.recipes.run import train as train_run

    recipe = make_recipe(name, **{**found["settings"], **settings})
    ends = found.get("ends", {})
    if not (steps or minutes):
        steps, minutes = ends.get("steps"), ends.get("minutes")
    origin = init_from or found.get("init_from")
    signal_number = train_run(
        recipe,
        RunDirectory(run_path),
        Budget(steps, minutes) if steps or minutes else recipe.budget,
        made_strategy,
        checkpoint_steps,
        patience or ends.get("patience"),
        tensorboard,
        init_from=None if origin is None else RunDirectory(origin),
    )
    if signal_number is not None:
        click.echo("Stopped; the same command goes on from here.", err=True)
        sys.exit(128 + signal_number)


def _description(run_path: Place) -> dict | None:
    """What a run says of itself; of a worker that shares no disk with the first, its own part.

    None if there is no run.
    """
    import_tensorflow()
    from keras_attn.training import RunDirectory

    run = RunDirectory(run_path)
    parts = [run, *map(RunDirectory, sorted(run.path.glob("worker-*")))]
    return next((each.description() for each in parts if each.exists), None)
