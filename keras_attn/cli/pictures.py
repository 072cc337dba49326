"""Draw what a model looks at, and how its training went."""

import logging
import os
from pathlib import Path

import click

from keras_attn.cli.options import PATH, recipe_option, run_option
from keras_attn.cli.runs import import_tensorflow, loaded, require_run_directory
from keras_attn.errors import UserError
from keras_attn.protocols import SupportsAttentionMaps


@click.command()
@run_option
@recipe_option
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, help="A .png or .svg file."
)
@click.argument("texts", nargs=-1)
def plot(run_path: Path, recipe: str | None, output: Path, texts: tuple[str, ...]):
    """Draw what the model did with each of TEXTS: where it looked, or what its cells held."""
    require_picture(output)
    recipe, text_model = loaded(run_path, recipe)
    given = [os.fsencode(text) for text in texts]
    save(recipe.plot(text_model, given or recipe.texts_to_show(3)), output)
    click.echo(output)


@click.command()
@click.argument("run_paths", metavar="RUN...", nargs=-1, required=True, type=PATH)
@click.option("--output", type=PATH, required=True, help="A .png or .svg file.")
def curves(run_paths: tuple[Path, ...], output: Path):
    """Draw loss, metrics, learning rate, gradient norm and speed of one or several RUNs."""
    require_picture(output)
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
    """Say of every head of a Transformer whether it is positional, copying or uniform."""
    require_picture(output)
    recipe, text_model = loaded(run_path, recipe)
    if not isinstance(text_model.model, SupportsAttentionMaps):
        raise UserError(f"{run_path} is a run of a model without heads; train a Transformer.")
    from keras_attn.analysis import plot_heads, score_heads, sentence_maps

    sources, targets = recipe.validation_texts(sentences)
    blocks = sentence_maps(text_model, sources, targets)[attention]
    scores = [score_heads(examples) for examples in blocks]
    if output is not None:
        texts = [os.fsencode(text) if text else recipe.texts_to_show(1)[0]]
        shown = [examples[0] for examples in sentence_maps(text_model, texts)[attention]]
        queries, keys, _ = shown[0]
        save(plot_heads(queries, keys, [weights for _, _, weights in shown], scores), output)
    for block, row in enumerate(scores, start=1):
        for head, score in enumerate(row, start=1):
            click.echo(f"{attention} block {block} head {head}: {score.described}")
    if output is not None:
        click.echo(output)


def require_picture(output: Path | None):
    if output is not None and output.suffix.lower() not in (".png", ".svg"):
        raise UserError(f"A plot is a .png or a .svg file; {output} is neither.")


def save(figure, output: Path):
    from keras_attn.analysis import save_figure
    from keras_attn.files import written_whole

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with written_whole(output) as file:
        save_figure(figure, file, output.suffix[1:].lower())
