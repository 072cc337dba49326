"""keras-attn demo: the whole road of one small model."""

import json
import urllib.request
from pathlib import Path

import click

from keras_attn.cli.evaluate import print_metrics
from keras_attn.cli.export import export_model
from keras_attn.cli.options import PATH
from keras_attn.cli.pictures import save
from keras_attn.cli.runs import loaded
from keras_attn.cli.train import train_recipe


@click.command()
@click.option(
    "--directory",
    type=PATH,
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
    train_recipe("dates", run_path, {}, steps=steps)
    recipe, model = loaded(run_path, None)
    print_metrics(recipe.evaluate(model))
    version = export_model(model, directory / "models" / "dates")
    _ask_over_http(directory / "models" / "dates", recipe.samples)
    picture = directory / "alignment.png"
    save(recipe.plot(model, recipe.samples[:3]), picture)
    click.echo(f"Alignment heat map: {picture}")
    click.echo(
        f"To go on serving it: keras-attn serve --model_name=dates "
        f"--model_base_path={version.parent.absolute()}"
    )


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
