"""keras-attn: train, evaluate, predict, export, serve and plot from the command line.

TensorFlow is imported by the commands that need it, quietly, so that `--help` is quick.
"""

from keras_attn.cli.commands import main

__all__ = ["main"]
