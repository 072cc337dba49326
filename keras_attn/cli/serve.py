"""keras-attn serve: trained models over TensorFlow Serving's REST interface."""

import click

from keras_attn.cli.runs import import_tensorflow
from keras_attn.errors import UserError


def _flag(name: str, help: str):
    """A boolean flag as TensorFlow Serving takes it: bare, or with =true or =false."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value="true", default=False, help=help
    )


@click.command()
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
    import_tensorflow()

    def announce(address: str):
        for model in models:
            click.echo(f"{address}/v1/models/{model.name}")

    serve_models(
        models, host=host, port=rest_api_port, timeout_ms=rest_api_timeout_in_ms, ready=announce
    )
