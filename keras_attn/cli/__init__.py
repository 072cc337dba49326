"""keras-attn: train, evaluate, predict, export, serve and plot from the command line.

TensorFlow is imported by the commands that need it, quietly, so that `--help` is quick.
"""

import click

from keras_attn.cli.answers import evaluate, predict
from keras_attn.cli.demo import demo
from keras_attn.cli.group import Commands
from keras_attn.cli.pictures import curves, heads, plot
from keras_attn.cli.serving import export, serve
from keras_attn.cli.tokenizing import tokenize
from keras_attn.cli.training import train
from keras_attn.version import __version__


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="keras-attn")
def main():
    """Recurrence and attention for Keras 3: train, export, serve, ask."""


for _command in (demo, train, evaluate, predict, export, plot, curves, heads, tokenize, serve):
    main.add_command(_command)
