"""dates: human dates in four languages to ISO 8601, a character RNNsearch trained in minutes."""

import math
from collections.abc import Callable, Iterable, Sequence

import keras
import tensorflow as tf

from keras_attn.analysis import plot_alignments
from keras_attn.counted import counted
from keras_attn.data.dates import TARGET_CHARACTERS, source_characters, write_dates
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.sequence_pairs import batches_of_pairs
from keras_attn.models import RNNSearch
from keras_attn.recipes.settings import DatesSettings, resolved
from keras_attn.serving.text_model import TextModel
from keras_attn.text import CharacterTokenizer
from keras_attn.training import NO_LIMITS, Budget, RunDirectory, ValidationLimits, token_objective

TARGET_LENGTH = len("1998-03-03") + 1  # with the end token


class Dates:
    """RNNsearch over characters: embedding 32, encoder 32 each way, decoder and attention 64.

    Args:
        settings: of `settings.DatesSettings`, those that are not to be their defaults.

    Raises:
        UserError: a setting that there is not, or a value that it cannot have.
    """

    name = "dates"
    budget = Budget(steps=3_000)
    clip_norm = 1.0
    validations = 2
    averaged = 0
    prepared_files = ("characters.json",)
    tokenizer_files = ("characters.json",)
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
        self.settings = resolved(DatesSettings, settings, "The recipe dates")

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ("babel",)

    def prepare(self, run: RunDirectory) -> None:
        if not run.has("characters.json"):
            run.write_json("characters.json", source_characters())

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self.settings["seed"])
        source, target = self._tokenizers(run)
        units = self.settings["units"]
        return RNNSearch(
            source.vocabulary_size,
            target.vocabulary_size,
            embedding_dim=self.settings["embedding_dim"],
            encoder_units=units,
            decoder_units=2 * units,
            attention_units=2 * units,
            readout_units=units,
        )

    def batches(self, run: RunDirectory) -> SeekableBatches:
        source, target = self._tokenizers(run)
        pairs = write_dates(self.settings["training_dates"], self.settings["seed"], "train")
        texts, dates = zip(*pairs, strict=True)
        return batches_of_pairs(
            source.tokenize(tf.constant(texts)),
            target.tokenize(tf.constant(dates)),
            batch_size=self.settings["batch_size"],
            seed=self.settings["seed"],
        )

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        lengths = (16, 24, 40, self.max_source_length + 1)
        return with_fixed_shapes(
            self.batches(run), dict.fromkeys(lengths, self.settings["batch_size"])
        )

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        height = self.settings["learning_rate"]
        return height * min(1.0, (step + 1) / 100) * (1 + math.cos(math.pi * used)) / 2

    def objective(self) -> Callable:
        return token_objective()

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        return TextModel(model, *self._tokenizers(run), self.max_source_length, TARGET_LENGTH)

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        texts, dates = self._pairs("validation", 500)
        return _exact_match(dates, text_model.answer(texts, 500))

    def evaluate(self, text_model: TextModel, count: int = 2_000) -> dict[str, float]:
        """The share of dates of days never trained on whose whole answer is right."""
        texts, dates = self._pairs("test", count)
        answers = counted(text_model.answer(texts, 250), "test: answered", count)
        return _exact_match(dates, answers)

    def texts_to_show(self, count: int) -> Sequence[str]:
        return self.samples[:count]

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        return plot_alignments(text_model.alignments(texts))

    def _pairs(self, split: str, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """So many human dates, and as they are to be answered."""
        return tuple(zip(*write_dates(count, self.settings["seed"], split), strict=True))

    def _tokenizers(self, run: RunDirectory) -> tuple[CharacterTokenizer, CharacterTokenizer]:
        characters = run.read_json("characters.json")
        return CharacterTokenizer(characters), CharacterTokenizer(TARGET_CHARACTERS)


def _exact_match(dates: Sequence[str], answers: Iterable[str]) -> dict[str, float]:
    right = sum(answer == date for answer, date in zip(answers, dates, strict=True))
    return {"exact_match": right / len(dates)}
