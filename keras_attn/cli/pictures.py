"""keras-attn plot, curves and heads: what a run did, drawn."""

import logging
import os
from pathlib import Path

import click

from keras_attn.cli.options import PATH, recipe_option, run_option
from keras_attn.cli.runs import import_tensorflow, loaded, require_run_directory
from keras_attn.errors import UserError

_SHOWN = 3  # texts that are drawn where none is given


@click.command()
@run_option
@recipe_option
@click.option("--output", type=PATH, required=True, help="A .png or .svg file.")
@click.argument("texts", nargs=-1)
def plot(run_path: Path, recipe: str | None, output: Path, texts: tuple[str, ...]):
    """Draw what the model did with each of TEXTS: where it looked, or what its cells held.

    Without TEXTS it draws the samples of the recipe, or the first validation sentences.
    """
    _require_picture(output)
    recipe, model = loaded(run_path, recipe)
    shown = [os.fsencode(text) for text in texts] or shown_texts(recipe, _SHOWN)
    save(recipe.plot(model, shown), output)
    click.echo(output)


@click.command()
@click.argument("run_paths", metavar="RUN...", nargs=-1, required=True, type=PATH)
@click.option("--output", type=PATH, required=True, help="A .png or .svg file.")
def curves(run_paths: tuple[Path, ...], output: Path):
    """Draw loss, metrics, learning rate, gradient norm and speed of one or several RUNs."""
    _require_picture(output)
    for run_path in run_paths:
        require_run_directory(run_path)
    import_tensorflow()
    from keras_attn.analysis import plot_curves
    from keras_attn.training import read_history

    save(plot_curves({str(path): read_history(path) for path in run_paths}), output)
    click.echo(output)


@click.command()
@run_option
@recipe_option
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
@click.option("--output", type=PATH, help="Draw the heads for TEXT to this .png or .svg file.")
@click.argument("text", required=False)
def heads(
    run_path: Path,
    recipe: str | None,
    attention: str,
    sentences: int,
    output: Path | None,
    text: str | None,
):
    """Say of every head of a Transformer whether it is positional, copying or uniform.

    TEXT is what is drawn; without it the first sample of the recipe, or the first validation
    sentence.
    """
    if output is not None:
        _require_picture(output)
    recipe, model = loaded(run_path, recipe)
    from keras_attn.analysis import plot_heads, score_heads
    from keras_attn.recipes.recipe import ShowsHeads

    if not isinstance(recipe, ShowsHeads):
        raise UserError(f"{run_path} is a run of a model without heads; train a Transformer.")
    blocks = recipe.head_maps(model, *recipe.validation_texts(sentences))[attention]
    scores = [score_heads(examples) for examples in blocks]
    if output is not None:  # drawn before anything is printed: a failure leaves no half answer
        shown = [os.fsencode(text)] if text else shown_texts(recipe, 1)
        maps = [examples[0] for examples in recipe.head_maps(model, shown)[attention]]
        queries, keys, _ = maps[0]
        save(plot_heads(queries, keys, [weights for _, _, weights in maps], scores), output)
    for block, row in enumerate(scores, start=1):
        for head, score in enumerate(row, start=1):
            click.echo(f"{attention} block {block} head {head}: {score.described}")
    if output is not None:
        click.echo(output)


def shown_texts(recipe, count: int) -> list[str]:
    """The first texts worth showing: samples, or else validation sentences."""
    return list(recipe.samples[:count] or recipe.validation_texts(count)[0])


def save(figure, output: Path) -> None:
    """Write a figure as the kind of file that its name says, whole or not at all."""
    from keras_attn.analysis import save_figure
    from keras_attn.files import written_whole

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with written_whole(output) as file:
        save_figure(figure, file, output.suffix[1:].lower())


def _require_picture(output: Path) -> None:
    if output.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"A plot is a .png or a .svg file; {output} is neither.")
