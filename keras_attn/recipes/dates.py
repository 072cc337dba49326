"""dates: human dates in four languages to ISO 8601, a character RNNsearch trained in minutes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

import keras
import tensorflow as tf

from keras_attn.analysis import plot_alignments
from keras_attn.counted import counted
from keras_attn.data.dates import TARGET_CHARACTERS, source_characters, write_dates
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.sequence_pairs import batches_of_pairs
from keras_attn.models import RNNSearch
from keras_attn.recipes.dates_settings import DatesSettings
from keras_attn.recipes.settings import made
from keras_attn.serving.text_model import TextModel
from keras_attn.text import CharacterTokenizer
from keras_attn.training import NO_LIMITS, Budget, RunDirectory, ValidationLimits, token_objective

TARGET_LENGTH = len("1998-03-03") + 1  # with the end token


class Dates:
    """RNNsearch over characters; decoder and attention are twice as wide as an encoder's direction.

    Args:
        settings: those of `DatesSettings`, by name.

    Raises:
        UserError: an unknown setting, or a number out of its bounds.
    """

    name = "dates"
    budget = Budget(steps=DatesSettings.default_steps)
    averaged = 0
    prepared_files = ("characters.json",)
    vocabulary_files = ("characters.json",)
    test_data = "2,000 dates of days that are neither in the training nor in the validation data."
    max_source_length = 64
    samples = (
        "Dienstag, 3. März 1998",
        "3/4/07",
        "3.4.07",
        "the 2nd of May, 1811",
        "le 14 juillet 1789",
        "2 de mayo de 2024",
    )

    def __init__(self, **settings):
        self._settings = made(DatesSettings, settings, "The recipe dates")
        self.settings = asdict(self._settings)
        self.clip_norm = self._settings.clip_norm
        self.validations = self._settings.validations

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ("babel",)

    def prepare(self, run: RunDirectory) -> None:
        if not run.has("characters.json"):
            run.write_json("characters.json", source_characters())

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self._settings.seed)
        source, target = self._tokenizers(run)
        units = self._settings.units
        return RNNSearch(
            source.vocabulary_size,
            target.vocabulary_size,
            embedding_dim=self._settings.embedding_dim,
            encoder_units=units,
            decoder_units=2 * units,
            attention_units=2 * units,
            readout_units=units,
            dropout=self._settings.dropout,
        )

    def batches(self, run: RunDirectory) -> SeekableBatches:
        source, target = self._tokenizers(run)
        pairs = write_dates(self._settings.training_dates, self._settings.seed, "train")
        texts, dates = zip(*pairs, strict=True)
        return batches_of_pairs(
            source.tokenize(tf.constant(texts)),
            target.tokenize(tf.constant(dates)),
            batch_size=self._settings.batch_size,
            seed=self._settings.seed,
        )

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        lengths = (16, 24, 40, self.max_source_length + 1)
        return with_fixed_shapes(
            self.batches(run), dict.fromkeys(lengths, self._settings.batch_size)
        )

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        peak, warmed_up = self._settings.learning_rate, (step + 1) / self._settings.warmup_steps
        return peak * min(1.0, warmed_up) * (1 + math.cos(math.pi * used)) / 2

    def objective(self) -> Callable:
        return token_objective(self._settings.label_smoothing)

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        return TextModel(model, *self._tokenizers(run), self.max_source_length, TARGET_LENGTH)

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        texts, dates = self.validation_texts()
        return self.score(list(text_model.answer(texts, 500)), dates)

    def evaluate(self, text_model: TextModel, count: int = 2_000) -> dict[str, float]:
        """The share of dates of days never trained on whose whole answer is right."""
        texts, dates = self._pairs("test", count)
        answers = counted(text_model.answer(texts, 250), "test: answered", count)
        return self.score(list(answers), dates)

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The share of answers that are right as a whole."""
        right = sum(
            answer == date.strip() for answer, date in zip(answers, references, strict=True)
        )
        return {"exact_match": right / len(references)}

    def validation_texts(self, count: int | None = None) -> tuple[Sequence[str], Sequence[str]]:
        texts, dates = self._pairs("validation", 500)
        return texts[:count], dates[:count]

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        return plot_alignments(text_model.alignments(texts))

    def _pairs(self, split: str, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """So many human dates, and as they are to be answered."""
        return tuple(zip(*write_dates(count, self._settings.seed, split), strict=True))

    def _tokenizers(self, run: RunDirectory) -> tuple[CharacterTokenizer, CharacterTokenizer]:
        characters = run.read_json("characters.json")
        return CharacterTokenizer(characters), CharacterTokenizer(TARGET_CHARACTERS)
