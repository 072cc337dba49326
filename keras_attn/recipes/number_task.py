"""What the recipes have in common that write the numbers they read in another order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_attn.analysis import plot_alignments
from keras_attn.analysis.alignment_measures import mass_on
from keras_attn.analysis.shuffled_attention import ShuffledAttention
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.number_sequences import NUMBERS, number_sequences
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.sequence_pairs import ended, model_batch
from keras_attn.models import RNNSearch
from keras_attn.recipes.number_settings import (
    NumberSettings,
    ReversalSettings,
    SortingSettings,
)
from keras_attn.serving.text_model import TextModel
from keras_attn.special_tokens import NUMBER_OF_SPECIAL_TOKENS
from keras_attn.text import PieceTokenizer
from keras_attn.training import NO_LIMITS, Budget, RunDirectory, ValidationLimits, token_objective

MAX_LENGTH = 32
"""The longest sequence that is read; longer ones are cut."""


@dataclass(frozen=True)
class Task:
    """What is to be written for a sequence, and where the model ought to look meanwhile.

    Args:
        answers: from sequences (B, n) to what is to be written, (B, n).
        positions: `positions(source, written)`, from the tokens of both sides to True (T, S) where
            the model ought to look when it writes each.
        lengths: at which the recipe is evaluated.
        shown_length: at which attention is measured and shuffled.
        trained_lengths: the shortest and the longest of training.
    """

    answers: Callable[[tf.Tensor], tf.Tensor]
    positions: Callable[[Sequence[str], Sequence[str]], np.ndarray]
    lengths: Sequence[int]
    shown_length: int
    trained_lengths: tuple[int, int] = (5, 15)


class NumberTask:
    """RNNsearch that learns a task on sequences of the numbers 0 to 19.

    Args:
        name: of the recipe.
        task: what is learned.
        settings: of the model and its training.
        samples: sequences worth showing.
    """

    budget = Budget(minutes=NumberSettings.default_minutes)
    averaged = 0
    prepared_files = ()
    vocabulary_files = ()
    test_data = "1,000 sequences of each length that were drawn for this alone."

    def __init__(
        self,
        name: str,
        task: Task,
        settings: ReversalSettings | SortingSettings,
        samples: Sequence[str],
    ):
        self.name = name
        self.task = task
        self.settings = asdict(settings)
        self.samples = samples
        self.clip_norm = settings.clip_norm
        self.validations = settings.validations
        self._settings = settings

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        """Nothing: the data are made as they are needed."""

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self._settings.seed)
        settings, vocabulary_size = self._settings, NUMBER_OF_SPECIAL_TOKENS + NUMBERS
        model = RNNSearch(
            vocabulary_size,
            vocabulary_size,
            embedding_dim=settings.embedding_dim,
            encoder_units=settings.encoder_units,
            decoder_units=settings.decoder_units,
            attention_units=settings.attention_units,
            readout_units=settings.embedding_dim,
            dropout=settings.dropout,
        )
        _make_steep(model.decoder.cell.attention, settings.steepness)
        return model

    def batches(self, run: RunDirectory) -> SeekableBatches:
        seed, answers = self._settings.seed, self.task.answers

        def pairs(numbers):
            return model_batch(_ids(numbers), _ids(answers(numbers)))

        lengths, batch_size = self.task.trained_lengths, self._settings.batch_size
        return number_sequences(*lengths, batch_size, seed).mapped(pairs)

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        longest = self.task.trained_lengths[1] + 1  # with the end token
        rows = dict.fromkeys((longest // 2, longest), self._settings.batch_size)
        return with_fixed_shapes(self.batches(run), rows)

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        peak, warmed_up = self._settings.learning_rate, (step + 1) / self._settings.warmup_steps
        return peak * min(1.0, warmed_up) * (1 + math.cos(math.pi * used)) / 2

    def objective(self) -> Callable:
        return token_objective()

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        tokenizer = PieceTokenizer(map(str, range(NUMBERS)))
        return TextModel(model, tokenizer, tokenizer, MAX_LENGTH, MAX_LENGTH + 1)

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        texts, references = self.validation_texts()
        return self.score(list(text_model.answer(texts, 500)), references)

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The share of answers that are right as a whole."""
        pairs = zip(answers, references, strict=True)
        right = sum(answer.split() == reference.split() for answer, reference in pairs)
        return {"exact_match": right / len(references)}

    def validation_texts(self, count: int | None = None) -> tuple[Sequence[str], Sequence[str]]:
        """Sequences of the greatest length of training, and what is to be written for them."""
        numbers = self.sequences(self.task.trained_lengths[1], 500, seed_offset=1)
        return _texts(numbers)[:count], _texts(self.task.answers(numbers).numpy())[:count]

    def evaluate(self, text_model: TextModel, count: int = 1_000) -> dict[str, float]:
        """The share of sequences whose whole answer is right, by length, and where it looked.

        With its attention shuffled the same model shows what it does without looking.
        """
        found = {}
        for length in self.task.lengths:
            measures = self.measured(text_model, self.sequences(length, count))
            found[f"exact_match at {length}"] = measures["exact_match"]
            if length == self.task.shown_length:
                found[f"attention at {length}"] = measures["attention"]
        numbers = self.sequences(self.task.shown_length, count)
        shuffled = self.measured(self.shuffled(text_model), numbers)
        found[f"shuffled exact_match at {self.task.shown_length}"] = shuffled["exact_match"]
        return found

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        return plot_alignments(text_model.alignments(texts))

    def sequences(self, length: int, count: int, seed_offset: int = 2) -> np.ndarray:
        """So many sequences of one length that training does not draw: (count, length)."""
        seed = self._settings.seed + seed_offset
        return next(number_sequences(length, length, count, seed).as_numpy_iterator())

    def measured(self, text_model: TextModel, numbers: np.ndarray) -> dict[str, float]:
        """The share of right answers, and of the attention that lies where it ought to."""
        rights, shares = [], []
        answers = self.task.answers(tf.constant(numbers)).numpy()
        for (source, target, alignment), answer in zip(
            text_model.alignments(_texts(numbers)), answers, strict=True
        ):
            source, written = source[:-1], target[: len(answer)]
            rights.append(target == [*map(str, answer), "</s>"])
            # What stands on the end token's position counts as elsewhere.
            looked = alignment[: len(written)]
            ought = np.pad(self.task.positions(source, written), [(0, 0), (0, 1)])
            shares.append(mass_on(looked, ought))
        return {"exact_match": float(np.mean(rights)), "attention": float(np.mean(shares))}

    def shuffled(self, text_model: TextModel) -> TextModel:
        """The same model with its attention on the wrong positions."""
        return self.text_model(ShuffledAttention(text_model.model), RunDirectory("."))


def _make_steep(attention: keras.layers.Layer, factor: float) -> None:
    """Begin with scores that differ much from position to position.

    A decoder that can tell from a blurred context what to write has no reason to look more sharply,
    and weights of the usual size begin with a blur.
    """
    for weight in (attention.query_kernel, attention.key_kernel, attention.score_vector):
        weight.assign(factor * weight)


def _texts(numbers: np.ndarray) -> list[str]:
    return [" ".join(map(str, row)) for row in numbers]


def _ids(numbers: tf.Tensor) -> tf.RaggedTensor:
    """The ids of numbers and the end token: (B, n) -> (B, None)."""
    return ended(tf.RaggedTensor.from_tensor(numbers + NUMBER_OF_SPECIAL_TOKENS))
