"""What a recipe offers to the commands, and what the model offers that it gives them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import keras

from keras_attn.data.seekable import SeekableBatches
from keras_attn.serving.answers import Answer, Search
from keras_attn.training import NO_LIMITS, Budget, RunDirectory, ValidationLimits


class AnsweringModel(Protocol):
    """A trained model as `predict`, `evaluate` and `export` use it: a line in, a line out.

    A line is what a person can type of the input: the text to translate or to go on with, the path
    of a picture, the numbers of a stream. An answer is the line that stands for the output: a
    translation, a caption, the name of a class, a number.

    Attributes:
        model: what was trained.
        resources: the variables and modules that the signatures read, see `serving.export`.
    """

    model: keras.Model

    @property
    def resources(self) -> list: ...

    def signatures(self) -> dict[str, Callable]:
        """What an export answers: functions with an input signature, by name."""

    def warm_up(self) -> None:
        """Compile what answers, so that the first answer takes no longer than the others."""

    def with_search(self, search: Search) -> Self:
        """The same model with the search that is asked for.

        Raises:
            UserError: if it does not search, or not like that.
        """

    def answer(self, texts: Iterable[str | bytes], batch_size: int = 64) -> Iterator[str]:
        """The best answer to each line, in order; nothing is answered with nothing."""

    def answers(self, texts: Sequence[str | bytes]) -> list[Answer]:
        """The best answers to each line of a batch, with their scores."""


class Recipe(Protocol):
    """An experiment: data, model, optimiser, metrics and signatures.

    Attributes:
        name: as it stands on the command line.
        settings: those of its settings dataclass, as JSON; also the arguments of the recipe.
        budget: how long it trains by default.
        clip_norm: largest norm of the gradient.
        validations: how often it is validated while it trains.
        averaged: how many checkpoints are averaged at the end; 0 for none.
        samples: lines worth showing; none if only its data has some.
        prepared_files: names of what `prepare` leaves in the run directory.
        vocabulary_files: those of them that say what the ids of the model mean. A run that begins
            with the weights of another takes them from it.
        test_data: what `evaluate` scores, and whether anything was chosen by it: a sentence.
    """

    name: str
    settings: dict[str, Any]
    budget: Budget
    clip_norm: float
    validations: int
    averaged: int
    samples: Sequence[str]
    prepared_files: Sequence[str]
    vocabulary_files: Sequence[str]
    test_data: str

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

    def text_model(self, model: keras.Model, run: RunDirectory) -> AnsweringModel:
        """The model that takes and gives lines, and that `serving.export` takes."""

    def validate(
        self, text_model: AnsweringModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """Metrics on validation data; by the first, higher is better, the best is kept.

        A validation that the limits cut short also says on how many `lines` it is; one that takes
        a second whatever it finds needs no limits.
        """

    def evaluate(self, text_model: AnsweringModel) -> dict[str, float | str]:
        """Metrics on `test_data`; what takes long shows its progress."""

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
        """The metrics of answers beside what would have been right, line for line.

        Raises:
            UserError: if a reference is nothing that the metrics can be of.
        """

    def validation_texts(self, count: int | None = None) -> tuple[Sequence[str], Sequence[str]]:
        """The first lines of the validation data, and what would be right; all by default."""

    def plot(self, text_model: AnsweringModel, texts: Sequence[str | bytes]):
        """A `matplotlib.figure.Figure` of what the model did with each line."""


@runtime_checkable
class ShowsHeads(Protocol):
    """A recipe whose models may have attention heads to be scored and drawn."""

    def head_maps(
        self,
        text_model: AnsweringModel,
        sources: Sequence[str | bytes],
        targets: Sequence[str] | None = None,
    ) -> dict[str, list]:
        """As `keras_attn.analysis.sentence_maps`.

        Raises:
            UserError: if this model has no heads.
        """


@runtime_checkable
class HasHeads(Protocol):
    """A model that gives the weights of its attention heads, such as `models.Transformer`."""

    def attention_maps(self, inputs: dict) -> dict[str, list]:
        """The weights of each attention, block by block, for a batch of ids."""
