"""What every recipe offers to the commands."""

from collections.abc import Sequence
from typing import Protocol

import keras
import tensorflow as tf

from keras_attn.serving.text_model import TextModel
from keras_attn.training.run_directory import RunDirectory


class Recipe(Protocol):
    """An experiment: data, model, optimiser, metrics and signatures.

    Attributes:
        name: as it stands on the command line.
        settings: what makes two runs different, as JSON; also the arguments of the class.
        steps: training steps by default.
        clip_norm: largest norm of the gradient.
        samples: inputs worth showing.
    """

    name: str
    settings: dict
    steps: int
    clip_norm: float
    samples: Sequence[str]

    def prepare(self, run: RunDirectory) -> None:
        """Make what training and serving need (vocabularies) and keep it in the run directory."""

    def build(self, run: RunDirectory) -> keras.Model:
        """The model, untrained."""

    def batches(self, run: RunDirectory) -> tf.data.Dataset:
        """Endless training batches, their order a function of the settings."""

    def optimizer(self, steps: int) -> keras.optimizers.Optimizer:
        """The optimiser of a run of so many steps."""

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        """The model that takes and gives text."""

    def evaluate(self, text_model: TextModel) -> dict[str, float]:
        """Metrics on data that training never sees."""
