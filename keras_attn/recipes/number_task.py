"""What the recipes have in common that write the numbers they read in another order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Sizes:
    """Of a small `RNNSearch` and its training.

    Args:
        embedding_dim, encoder_units, decoder_units, attention_units, dropout: of the model.
        steepness: by how much the first weights of the attention are larger than usual.
        batch_size: sequences in a batch.
        learning_rate: the highest.
    """

    embedding_dim: int
    encoder_units: int
    decoder_units: int
    attention_units: int
    dropout: float
    steepness: float
    batch_size: int
    learning_rate: float


class NumberTask:
    """RNNsearch that learns a task on sequences of the numbers 0 to 19.

    Args:
        name: of the recipe.
        task: what is learned.
        sizes: of the model and its training.
        settings: what makes two runs different: the arguments of the recipe.
        samples: sequences worth showing.
    """

    budget = Budget(minutes=5)
    clip_norm = 1.0
    validations = 5
    averaged = 0
    prepared_files = ()

    def __init__(self, name: str, task: Task, sizes: Sizes, settings: dict, samples: Sequence[str]):
        self.name = name
        self.task = task
        self.settings = settings
        self.samples = samples
        self._sizes = sizes

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        """Nothing: the data are made as they are needed."""

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self.settings["seed"])
        sizes, vocabulary_size = self._sizes, NUMBER_OF_SPECIAL_TOKENS + NUMBERS
        model = RNNSearch(
            vocabulary_size,
            vocabulary_size,
            embedding_dim=sizes.embedding_dim,
            encoder_units=sizes.encoder_units,
            decoder_units=sizes.decoder_units,
            attention_units=sizes.attention_units,
            readout_units=sizes.embedding_dim,
            dropout=sizes.dropout,
        )
        _make_steep(model.decoder.cell.attention, sizes.steepness)
        return model

    def batches(self, run: RunDirectory) -> SeekableBatches:
        seed, answers = self.settings["seed"], self.task.answers

        def pairs(numbers):
            return model_batch(_ids(numbers), _ids(answers(numbers)))

        lengths, batch_size = self.task.trained_lengths, self._sizes.batch_size
        return number_sequences(*lengths, batch_size, seed).mapped(pairs)

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        longest = self.task.trained_lengths[1] + 1  # with the end token
        rows = dict.fromkeys((longest // 2, longest), self._sizes.batch_size)
        return with_fixed_shapes(self.batches(run), rows)

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        peak = self._sizes.learning_rate * min(1.0, (step + 1) / 200)
        return peak * (1 + math.cos(math.pi * used)) / 2

    def objective(self) -> Callable:
        return token_objective()

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        tokenizer = PieceTokenizer(map(str, range(NUMBERS)))
        return TextModel(model, tokenizer, tokenizer, MAX_LENGTH, MAX_LENGTH + 1)

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        numbers = self.sequences(self.task.trained_lengths[1], 500, seed_offset=1)
        return {"exact_match": self.measured(text_model, numbers)["exact_match"]}

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
        seed = self.settings["seed"] + seed_offset
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
