"""Commands whose foreseeable failures are one sentence."""

import signal
import sys

import click

from keras_attn.errors import UserError


class Commands(click.Group):
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
