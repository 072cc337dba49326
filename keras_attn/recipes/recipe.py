"""What every recipe offers to the commands."""

from collections.abc import Callable, Sequence
from typing import Protocol

import keras

from keras_attn.data.seekable import SeekableBatches
from keras_attn.serving.text_model import TextModel
from keras_attn.training import NO_LIMITS, Budget, RunDirectory, ValidationLimits


class Recipe(Protocol):
    """An experiment: data, model, optimiser, metrics and signatures.

    Attributes:
        name: as it stands on the command line.
        settings: what makes two runs different, as JSON; also the arguments of the recipe.
        budget: how long it trains by default.
        clip_norm: largest norm of the gradient.
        validations: how often it is validated while it trains.
        averaged: how many checkpoints are averaged at the end; 0 for none.
        samples: inputs worth showing.
        prepared_files: names of what `prepare` leaves in the run directory.
        tokenizer_files: those of them that say what the ids mean.
    """

    name: str
    settings: dict
    budget: Budget
    clip_norm: float
    validations: int
    averaged: int
    samples: Sequence[str]
    prepared_files: Sequence[str]
    tokenizer_files: Sequence[str]

    def packages(self, run: RunDirectory) -> Sequence[str]:
        """Names of optional packages that the run needs until its end; looked for before it."""

    def prepare(self, run: RunDirectory) -> None:
        """Make what training and serving need in the run directory, unless it is there."""

    def build(self, run: RunDirectory) -> keras.Model:
        """The model, untrained."""

    def batches(self, run: RunDirectory) -> SeekableBatches:
        """Endless training batches, their order a function of the settings."""

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        """Endless training batches in a few shapes, for a TPU."""

    def optimizer(self) -> keras.optimizers.Optimizer:
        """The optimiser; its learning rate is set before every step."""

    def learning_rate(self, used: float, step: int) -> float:
        """The learning rate when a share of the budget is used."""

    def objective(self) -> Callable:
        """`objective(model, batch) -> (sum, count)`."""

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        """The model that takes and gives text, and that `serving.export` takes."""

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """Metrics on validation data; by the first, higher is better, the best is kept.

        A validation that the limits cut short also says on how many `lines` it is; one that takes
        a second whatever it finds needs no limits.
        """

    def evaluate(self, text_model: TextModel) -> dict[str, float]:
        """Metrics on test data, which nothing was chosen by; what takes long shows its progress."""

    def texts_to_show(self, count: int) -> Sequence[str]:
        """So many inputs worth showing, of the validation data where the recipe names none."""

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        """A `matplotlib.figure.Figure` of what the model did with each text."""
