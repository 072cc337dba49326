"""All commands, and what becomes of their failures."""

import signal
import sys

import click

from keras_attn.cli.demo import demo
from keras_attn.cli.evaluate import evaluate
from keras_attn.cli.export import export
from keras_attn.cli.pictures import curves, heads, plot
from keras_attn.cli.predict import predict
from keras_attn.cli.serve import serve
from keras_attn.cli.subwords import tokenize
from keras_attn.cli.train import train
from keras_attn.errors import UserError
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


for _command in (
    demo, train, evaluate, predict, export, serve, plot, curves, heads, tokenize,
):  # fmt: skip
    main.add_command(_command)
