"""captions: Show, Attend and Tell on somebody's own pictures."""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import keras
import tensorflow as tf

from keras_attn.analysis import plot_captions
from keras_attn.counted import counted
from keras_attn.data.caption_batches import picture_batches
from keras_attn.data.caption_files import (
    Picture,
    frequent_words,
    of_split,
    read_captions,
    words_of,
)
from keras_attn.data.pictures import read_picture
from keras_attn.data.seekable import SeekableBatches
from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.models import ShowAttendTell, load_model
from keras_attn.recipes.caption_quality import bleu_of_captions
from keras_attn.recipes.caption_settings import CaptionsSettings
from keras_attn.recipes.settings import made
from keras_attn.serving.caption_model import CaptionModel
from keras_attn.text import PieceTokenizer
from keras_attn.training import (
    NO_LIMITS,
    Budget,
    RunDirectory,
    ValidationLimits,
    caption_objective,
)

WORDS_FILE = "words.json"
ENCODER_FILE = "encoder.keras"
_BATCH = 32  # of pictures that are described together


class Captions:
    """Show, Attend and Tell over a small network of its own, or over a given one.

    A line is the path of a picture.

    Args:
        settings: those of `CaptionsSettings`, by name; `images` and `captions` must be given.

    Raises:
        UserError: an unknown setting, a value that does not fit, or no files.
    """

    name = "captions"
    budget = Budget(minutes=CaptionsSettings.default_minutes)
    averaged = 0
    vocabulary_files = (WORDS_FILE,)
    samples = ()

    def __init__(self, **settings):
        self._settings = made(CaptionsSettings, settings, "The recipe captions")
        if self._settings.images is None or self._settings.captions is None:
            raise UserError(
                "Pictures and what they show are needed: give --images DIR and --captions FILE."
            )
        self.settings = asdict(self._settings)
        self.clip_norm = self._settings.clip_norm
        self.validations = self._settings.validations
        self.prepared_files = (WORDS_FILE, *([ENCODER_FILE] if self._settings.encoder else []))
        self._known: list[Picture] | None = None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self._settings.image_size, self._settings.image_size, 3

    @property
    def test_data(self) -> str:
        if self._pictures("test"):
            return "the pictures of the split test, by which nothing was chosen."
        return "the pictures for validation, by which the best model was chosen."

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ("sacrebleu",)

    def prepare(self, run: RunDirectory) -> None:
        """Look at every picture once, learn the words, and keep the encoder."""
        if all(run.has(name) for name in self.prepared_files):
            return
        files = [picture.file for picture in self._all()]
        for file in counted(files, "pictures looked at", len(files)):
            read_picture(file, self.image_shape)  # what is missing or broken is named
        if not run.has(WORDS_FILE):
            said = [caption for each in self._pictures("train") for caption in each.captions]
            run.write_json(WORDS_FILE, frequent_words(said, self._settings.least_count))
        if self._settings.encoder is not None and not run.has(ENCODER_FILE):
            load_model(self._settings.encoder)  # refused before it is needed
            with (
                open(self._settings.encoder, "rb") as given,
                written_whole(run.path / ENCODER_FILE) as file,
            ):
                shutil.copyfileobj(given, file)

    def build(self, run: RunDirectory) -> keras.Model:
        settings = self._settings
        keras.utils.set_random_seed(settings.seed)
        encoder = None
        if settings.encoder is not None:
            encoder = load_model(run.path / ENCODER_FILE)
            encoder.trainable = False
        return ShowAttendTell(
            self._tokenizer(run).vocabulary_size,
            self.image_shape,
            embedding_dim=settings.embedding_dim,
            decoder_units=settings.decoder_units,
            attention_units=settings.attention_units,
            attention=settings.attention,
            filters=tuple(settings.filters * factor for factor in (1, 2, 4, 8)),
            encoder=encoder,
            dropout=settings.dropout,
            mixture_share=settings.mixture_share,
            seed=settings.seed,
        )

    def batches(self, run: RunDirectory) -> SeekableBatches:
        pairs = [
            (picture.file, caption)
            for picture in self._pictures("train")
            for caption in picture.captions
        ]
        files, captions = zip(*pairs, strict=True)
        return picture_batches(
            files,
            self._tokenizer(run).tokenize(tf.constant(captions)),
            self.image_shape,
            length=self._settings.max_length,
            batch_size=min(self._settings.batch_size, len(pairs)),
            seed=self._settings.seed,
        )

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        return self.batches(run)

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        peak, warmed_up = self._settings.learning_rate, (step + 1) / self._settings.warmup_steps
        return peak * min(1.0, warmed_up) * (1 + math.cos(math.pi * used)) / 2

    def objective(self) -> Callable:
        settings = self._settings
        return caption_objective(
            settings.coverage_weight, settings.policy_weight, settings.entropy_weight
        )

    def text_model(self, model: keras.Model, run: RunDirectory) -> CaptionModel:
        return CaptionModel(model, self._tokenizer(run), self._settings.max_length)

    def validate(
        self, text_model: CaptionModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """BLEU-4 on the pictures for validation, the first ones if there is no time for all."""
        pictures, answers = self._pictures("validation"), []
        started = time.monotonic()
        while len(answers) < len(pictures):
            files = [picture.file for picture in pictures[len(answers) :][:_BATCH]]
            answers += text_model.answer(files, _BATCH)
            share = len(answers) / (len(answers) + _BATCH)  # of the time with another batch
            if (time.monotonic() - started) / share > limits.seconds:
                break
        quality = bleu_of_captions(answers, [each.captions for each in pictures[: len(answers)]])
        cut_short = {"lines": len(answers)} if len(answers) < len(pictures) else {}
        return {"bleu": quality["bleu"], **cut_short}

    def evaluate(self, text_model: CaptionModel) -> dict[str, float | str]:
        """BLEU-4 on the split test of Karpathy's JSON, or else on the pictures for validation."""
        pictures = self._pictures("test") or self._pictures("validation")
        answers = text_model.answer([picture.file for picture in pictures], _BATCH)
        found = list(counted(answers, "pictures described", len(pictures)))
        return bleu_of_captions(found, [picture.captions for picture in pictures])

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
        """BLEU-4 of captions; a reference may be several captions between tabs."""
        return bleu_of_captions(
            answers, [[words_of(each) for each in line.split("\t")] for line in references]
        )

    def validation_texts(self, count: int | None = None) -> tuple[list[str], list[str]]:
        """The first pictures for validation, and their captions between tabs."""
        pictures = self._pictures("validation")[:count]
        return [each.file for each in pictures], ["\t".join(each.captions) for each in pictures]

    def plot(self, text_model: CaptionModel, texts: Sequence[str | bytes]):
        """Each picture, and where the model looked while it wrote each word."""
        return plot_captions(text_model.captions(texts))

    def _tokenizer(self, run: RunDirectory) -> PieceTokenizer:
        return PieceTokenizer(run.read_json(WORDS_FILE))

    def _pictures(self, split: str) -> list[Picture]:
        return of_split(self._all(), split)

    def _all(self) -> list[Picture]:
        """All pictures, read once."""
        if self._known is None:
            self._known = read_captions(self._settings.captions, self._settings.images)
        return self._known
