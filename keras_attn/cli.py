"""keras-attn: train, evaluate, predict, export, serve and plot from the command line.

TensorFlow is imported by the commands that need it, quietly, so that `--help` is quick.
"""

import codecs
import itertools
import json
import logging
import math
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click

from keras_attn.errors import UserError
from keras_attn.kept_memory import keep_freed_memory
from keras_attn.paths import RemotePath, path_of
from keras_attn.version import __version__


class _Commands(click.Group):
    """Commands whose foreseeable failures are one sentence and exit code 2."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except UserError as error:
            failure = click.ClickException(str(error))
            failure.exit_code = 2
            raise failure from error
        except BrokenPipeError:
            raise  # click ends quietly when nobody reads on
        except OSError as error:
            place = error.filename or "Standard input or output"
            failure = click.ClickException(f"{place}: {error.strerror or error}.")
            failure.exit_code = 2
            raise failure from error
        except KeyboardInterrupt:
            click.echo("Interrupted; nothing is half-written.", err=True)
            sys.exit(128 + signal.SIGINT)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="keras-attn")
def main():
    """Recurrence and attention for Keras 3: train, export, serve, ask."""


class _Place(click.ParamType):
    """A path of this machine, or one with a scheme, such as gs://bucket/run."""

    name = "path"

    def convert(self, value, parameter, context) -> Path | RemotePath:
        return path_of(value)


_PLACE = _Place()
_run_option = click.option(
    "--run", "run_path", type=_PLACE, required=True, help="The run directory."
)
_recipe_option = click.option("--recipe", help="Insist that the run is of this recipe.")


def _search_options(command):
    """The options of the search by which a model answers."""
    for option in (
        click.option(
            "--length-penalty",
            type=float,
            default=0.0,
            show_default=True,
            help="Of the beam; above 0 it favours longer answers.",
        ),
        click.option(
            "--beam-width",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Hypotheses kept at every step; 1 is greedy search.",
        ),
    ):
        command = option(command)
    return command


@main.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default="keras-attn-demo",
    show_default=True,
    help="Where the run, the exported model and the picture go.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="Training steps.  [default: the recipe's]"
)
def demo(directory: Path, steps: int | None):
    """Train a small model, export it, serve it, ask it, and draw what it looked at."""
    from keras_attn.recipes.packages import require_packages

    require_packages(["babel", "matplotlib", "tensorflow_serving", "uvicorn"], "The demo")
    run_path = directory / "run"
    _train("dates", run_path, steps, None)
    recipe, text_model = _loaded(run_path, None)
    _print_metrics(recipe.evaluate(text_model))
    version = _export(text_model, directory / "models" / "dates")
    _ask_over_http(directory / "models" / "dates", recipe.samples)
    picture = directory / "alignment.png"
    _plot(recipe, text_model, recipe.samples[:3], picture)
    click.echo(f"Alignment heat map: {picture}")
    click.echo(
        f"To go on serving it: keras-attn serve --model_name=dates "
        f"--model_base_path={version.parent.absolute()}"
    )


_PATH = click.Path(path_type=Path)


@main.command()
@click.argument("recipe_name", metavar="RECIPE")
@click.option("--source", type=_PLACE, help="Text to learn from, a sentence a line.")
@click.option("--target", type=_PLACE, help="Its translation, line by line.")
@click.option("--validation-source", type=_PLACE, help="Text to choose the best model by.")
@click.option("--validation-target", type=_PLACE, help="Its translation.")
@click.option("--model", help="Of the translation recipes: rnnsearch or transformer.")
@click.option("--languages", nargs=2, help="Of Multi30k's raw text: en, de, fr; two of them.")
@click.option("--vocabulary-size", type=click.IntRange(min=1), help="Subwords to learn.")
@click.option("--cell", help="Of adding: lstm, lstm-forgetful, peephole, gru or rnn.")
@click.option("--length", type=click.IntRange(min=2), help="Of the streams of adding.")
@click.option("--units", type=click.IntRange(min=1), help="Of the recurrent layer.")
@click.option("--seed", type=int, help="Of data, weights and dropout.")
@click.option(
    "--run",
    "run_path",
    type=_PLACE,
    help="The run directory.  [default: runs/RECIPE]",
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="Training steps.  [default: the recipe's]"
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Minutes of training.")
@click.option(
    "--patience",
    type=click.IntRange(min=1),
    help="End early after so many validations without a better one.",
)
@click.option("--tensorboard", type=_PATH, help="Write curves for TensorBoard to this directory.")
@click.option(
    "--strategy",
    type=click.Choice(["none", "mirrored", "multi_worker", "tpu"]),
    default="none",
    show_default=True,
    help="The devices: one, all GPUs here, the processes in TF_CONFIG, a TPU.",
)
@click.option(
    "--checkpoint-steps",
    type=click.IntRange(min=1),
    help="The most steps between two checkpoints.  [default: those of a minute]",
)
def train(
    recipe_name: str,
    run_path: Path | None,
    steps: int | None,
    minutes: float | None,
    strategy: str,
    checkpoint_steps: int | None,
    patience: int | None,
    tensorboard: Path | None,
    **settings,
):
    """Train RECIPE, or go on with it where it stopped.

    RECIPE is dates, translation (your own aligned files), multi30k-rnnsearch, multi30k-transformer,
    multi30k-pieces (the published subwords), adding, reversal or sorting.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    run_path = run_path or Path("runs") / recipe_name
    options = {
        "every_steps": checkpoint_steps,
        "patience": patience,
        "tensorboard": tensorboard,
    }
    _train(recipe_name, run_path, steps, minutes, strategy, options, **settings)


@main.command()
@_run_option
@_recipe_option
@_search_options
def evaluate(run_path: Path, recipe: str | None, **search):
    """Print the recipe's metrics on data that training never saw."""
    recipe, text_model = _loaded(run_path, recipe, **search)
    _print_metrics(recipe.evaluate(text_model))


@main.command()
@_run_option
@_recipe_option
@_search_options
def predict(run_path: Path, recipe: str | None, **search):
    """Answer every line of standard input with a line."""
    from keras_attn.counted import counted

    _, text_model = _loaded(run_path, recipe, **search)
    lines, asked = itertools.tee(_lines_of_standard_input())
    answers = text_model.answer(asked)
    if not sys.stdout.isatty():  # where the answers themselves are no progress
        answers = counted(answers, "Lines answered")
    for line, answer in zip(lines, answers, strict=True):
        # A line for a line, whatever was spelled in bytes, and nothing for nothing.
        click.echo(answer.replace("\n", " ") if line.strip() else "")


@main.command()
@_run_option
@_recipe_option
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    required=True,
    help="The model's base path; the next version is written below it.",
)
@_search_options
def export(run_path: Path, recipe: str | None, directory: Path, **search):
    """Write the trained model as the next version of a SavedModel."""
    _, text_model = _loaded(run_path, recipe, **search)
    _export(text_model, directory)


@main.command()
@_run_option
@_recipe_option
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, help="A .png or .svg file."
)
@click.argument("texts", nargs=-1)
def plot(run_path: Path, recipe: str | None, output: Path, texts: tuple[str, ...]):
    """Draw what the model did with each of TEXTS: where it looked, or what its cells held."""
    _require_picture(output)
    recipe, text_model = _loaded(run_path, recipe)
    _plot(recipe, text_model, [os.fsencode(text) for text in texts] or recipe.samples[:3], output)
    click.echo(output)


@main.command()
@click.argument("run_paths", metavar="RUN...", nargs=-1, required=True, type=_PATH)
@click.option("--output", type=_PATH, required=True, help="A .png or .svg file.")
def curves(run_paths: tuple[Path, ...], output: Path):
    """Draw loss, metrics, learning rate, gradient norm and speed of one or several RUNs."""
    _require_picture(output)
    for run_path in run_paths:
        _require_run_directory(run_path)
    _import_tensorflow()
    from keras_attn.analysis import plot_curves
    from keras_attn.training import read_history

    _save(plot_curves({str(path): read_history(path) for path in run_paths}), output)
    click.echo(output)


@main.command()
@_run_option
@_recipe_option
@click.option(
    "--attention",
    type=click.Choice(["encoder", "decoder", "memory"]),
    default="encoder",
    show_default=True,
    help="Whose heads; memory is what the decoder reads of the source.",
)
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Validation sentences to score the heads over.",
)
@click.option("--output", type=_PATH, help="Draw the heads for TEXT to this .png or .svg file.")
@click.argument("text", required=False)
def heads(
    run_path: Path,
    recipe: str | None,
    attention: str,
    sentences: int,
    output: Path | None,
    text: str | None,
):
    """Say of every head of a Transformer whether it is positional, copying or uniform."""
    _require_picture(output)
    recipe, text_model = _loaded(run_path, recipe)
    if not hasattr(text_model.model, "attention_maps"):
        raise UserError(f"{run_path} is a run of a model without heads; train a Transformer.")
    from keras_attn.analysis import plot_heads, score_heads, sentence_maps

    sources, targets = recipe.validation_texts(sentences)
    blocks = sentence_maps(text_model, sources, targets)[attention]
    scores = [score_heads(examples) for examples in blocks]
    for block, row in enumerate(scores, start=1):
        for head, score in enumerate(row, start=1):
            click.echo(f"{attention} block {block} head {head}: {score.described}")
    if output is None:
        return
    texts = [os.fsencode(text) if text else recipe.samples[0] if recipe.samples else sources[0]]
    shown = [examples[0] for examples in sentence_maps(text_model, texts)[attention]]
    queries, keys, _ = shown[0]
    _save(plot_heads(queries, keys, [weights for _, _, weights in shown], scores), output)
    click.echo(output)


@main.command()
@_run_option
@click.option("--merges", type=click.IntRange(min=1), help="Print so many first merges instead.")
@click.argument("texts", nargs=-1)
def tokenize(run_path: Path, merges: int | None, texts: tuple[str, ...]):
    """Print the subwords of each of TEXTS, or of every line of standard input."""
    from keras_attn.recipes.subword_file import read_subword_model

    _require_run_directory(run_path)
    model = read_subword_model(run_path)
    _import_tensorflow()
    from keras_attn.text.subwords import SubwordTokenizer, first_merges

    if merges:
        for left, right in first_merges(model, merges):
            click.echo(f"{left} + {right} = {left}{right}")
        return
    tokenizer = SubwordTokenizer(model)
    for text in map(os.fsencode, texts) if texts else _lines_of_standard_input():
        pieces = tokenizer.split([text]).values.numpy()
        click.echo(" ".join(piece.decode() for piece in pieces))


def _lines_of_standard_input() -> Iterator[bytes]:
    """Lines as bytes: only a newline ends one, and what is not UTF-8 is the tokenizer's to mend."""
    mark = codecs.BOM_UTF8  # what some editors put in front of a file
    for line in sys.stdin.buffer:
        yield line.removeprefix(mark).removesuffix(b"\n").removesuffix(b"\r")
        mark = b""


def _flag(name: str, help: str):
    """A boolean flag as TensorFlow Serving takes it: bare, or with =true or =false."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value="true", default=False, help=help
    )


@main.command()
@click.option("--model_name", help="The model's name in the URL.  [default: default]")
@click.option("--model_base_path", help="The directory that holds its numbered versions.")
@click.option("--model_config_file", help="A ModelServerConfig in protobuf's text form.")
@click.option("--models_root", help="The directory that stands in for /models in base paths.")
@click.option("--rest_api_port", type=int, default=8501, show_default=True)
@click.option(
    "--rest_api_timeout_in_ms", type=click.IntRange(min=0), default=30_000, show_default=True
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@_flag("--allow_version_labels_for_unavailable_models", "Take labels from the first config.")
@_flag("--enable_batching", "Not there yet.")
@click.option("--batching_parameters_file", help="Not there yet.")
@click.option("--monitoring_config_file", help="Not there yet.")
def serve(
    model_name: str | None,
    model_base_path: str | None,
    model_config_file: str | None,
    models_root: str | None,
    rest_api_port: int,
    rest_api_timeout_in_ms: int,
    host: str,
    allow_version_labels_for_unavailable_models: bool,
    **not_there_yet,
):
    """Answer TensorFlow Serving's REST requests; the flags are TensorFlow Serving's."""
    for name, value in not_there_yet.items():
        if value:
            raise UserError(f"--{name} is not supported yet; leave it out. Received: {value}.")
    from keras_attn.serving import models_from_flags
    from keras_attn.serving import serve as serve_models

    models = models_from_flags(
        model_config_file=model_config_file,
        model_name=model_name,
        model_base_path=model_base_path,
        models_root=models_root,
        allow_version_labels=allow_version_labels_for_unavailable_models,
    )
    _import_tensorflow()

    def announce(address: str):
        for model in models:
            click.echo(f"{address}/v1/models/{model.name}")

    serve_models(
        models, host=host, port=rest_api_port, timeout_ms=rest_api_timeout_in_ms, ready=announce
    )


def _train(
    recipe_name: str,
    run_path: Path,
    steps: int | None,
    minutes: float | None,
    strategy_name: str = "none",
    options: dict | None = None,
    **settings,
):
    """Train a recipe, or exit if a signal ended it."""
    from keras_attn.recipes import make_recipe, require_recipe

    require_recipe(recipe_name, settings)  # before the slow import
    if minutes is not None and not math.isfinite(minutes):
        raise UserError(f"--minutes must be a number. Received: {minutes}.")
    keep_freed_memory()
    _import_tensorflow()
    from keras_attn.training import Budget, RunDirectory, make_strategy

    strategy = make_strategy(strategy_name)  # before anything that TensorFlow computes
    from keras_attn.recipes.run import train

    recipe, run = make_recipe(recipe_name, **settings), RunDirectory(run_path)
    budget = Budget(steps, minutes) if steps or minutes else recipe.budget
    signal_number = train(recipe, run, budget, strategy, **(options or {}))
    if signal_number is not None:
        click.echo("Stopped; the same command goes on from here.", err=True)
        sys.exit(128 + signal_number)


def _loaded(
    run_path: Path,
    recipe_name: str | None,
    beam_width: int = 1,
    length_penalty: float = 0.0,
):
    """The recipe of a run, and its trained model with the search that was asked for."""
    if beam_width == 1 and length_penalty:
        raise UserError("--length-penalty needs a beam: give --beam-width 2 or more too.")
    if not math.isfinite(length_penalty):
        raise UserError(f"--length-penalty must be a number. Received: {length_penalty}.")
    _require_run_directory(run_path)
    _import_tensorflow()
    from keras_attn.recipes.run import load
    from keras_attn.training import RunDirectory

    recipe, text_model = load(RunDirectory(run_path), recipe_name)
    if beam_width > 1 and not hasattr(text_model, "with_beam"):
        raise UserError(f"The recipe {recipe.name} searches nothing; leave --beam-width out.")
    if beam_width > 1:
        text_model = text_model.with_beam(beam_width, length_penalty)
    return recipe, text_model


def _require_run_directory(run_path: Path):
    if run_path.is_file():
        raise UserError(f"{run_path} is a file; give the directory of a run.")
    if not run_path.is_dir():
        raise UserError(f"There is no run directory {run_path}; train first.")


def _import_tensorflow():
    from keras_attn.quiet import import_tensorflow

    import_tensorflow()


def _print_metrics(metrics: dict[str, float | str]):
    for name, value in metrics.items():
        click.echo(f"{name}: {value if isinstance(value, str) else f'{value:.4f}'}")


def _export(text_model, directory: Path) -> Path:
    from keras_attn.serving import export

    version = export(text_model, directory)
    click.echo(f"Exported {version}")
    return version


def _ask_over_http(base_path: Path, texts):
    from keras_attn.serving import models_from_flags, running_server

    models = models_from_flags(model_name=base_path.name, model_base_path=base_path)
    with running_server(models) as address:
        url = f"{address}/v1/models/{base_path.name}:predict"
        body = json.dumps({"instances": list(texts)}, ensure_ascii=False)
        click.echo(f"POST {url}\n  {body}")
        with urllib.request.urlopen(url, body.encode()) as reply:
            answers = json.load(reply)["predictions"]
    width = max(map(len, texts))
    for text, answer in zip(texts, answers, strict=True):
        click.echo(f"  {text:<{width}}  {answer['text']}  (log-probability {answer['score']:.4f})")


def _require_picture(output: Path | None):
    if output is not None and output.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"A plot is a .png or a .svg file; {output} is neither.")


def _plot(recipe, text_model, texts, output: Path):
    _save(recipe.plot(text_model, texts), output)


def _save(figure, output: Path):
    from keras_attn.analysis import save_figure
    from keras_attn.files import written_whole

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with written_whole(output) as file:
        save_figure(figure, file, output.suffix[1:].lower())


if __name__ == "__main__":
    main()
