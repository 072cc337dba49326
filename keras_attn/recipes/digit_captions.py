"""digit-captions: two handwritten digits on a canvas, named, and where the model looks for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

import keras
import numpy as np
import tensorflow as tf

from keras_attn.analysis import plot_captions
from keras_attn.data.caption_batches import caption_batch
from keras_attn.data.digit_captions import (
    WORDS,
    DigitScenes,
    digit_scene_batches,
    digit_scenes,
    mass_on_digits,
)
from keras_attn.data.digits import mnist
from keras_attn.data.pictures import read_picture
from keras_attn.data.seekable import SeekableBatches
from keras_attn.errors import UserError
from keras_attn.models import ShowAttendTell
from keras_attn.recipes.caption_settings import DigitCaptionsSettings
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

MAX_LENGTH = 6
"""Words of the longest caption, `three left of seven`, its end and one more."""

VALIDATED = 500
"""Canvases; a line that is a number below it stands for one of them."""

_TRAINED = 11 / 12  # of MNIST's training set; the rest of the digits are on validated canvases


class DigitCaptions:
    """Show, Attend and Tell over the grid of three convolutions.

    A line is the path of a picture, or the number of a canvas of the validation data.

    Args:
        settings: those of `DigitCaptionsSettings`, by name.

    Raises:
        UserError: an unknown setting, or a value that does not fit.
    """

    name = "digit-captions"
    budget = Budget(minutes=DigitCaptionsSettings.default_minutes)
    averaged = 0
    prepared_files = ()
    vocabulary_files = ()
    samples = ("0", "1", "2", "3")
    test_data = "2,000 canvases with digits of MNIST's test set."

    def __init__(self, **settings):
        self._settings = made(DigitCaptionsSettings, settings, "The recipe digit-captions")
        self.settings = asdict(self._settings)
        self.clip_norm = self._settings.clip_norm
        self.validations = self._settings.validations
        self._validated: DigitScenes | None = None

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        mnist("train")  # refused before it is needed

    def build(self, run: RunDirectory) -> keras.Model:
        settings = self._settings
        keras.utils.set_random_seed(settings.seed)
        return ShowAttendTell(
            PieceTokenizer(WORDS).vocabulary_size,
            (settings.size, settings.size, 1),
            embedding_dim=settings.embedding_dim,
            decoder_units=settings.decoder_units,
            attention_units=settings.attention_units,
            attention=settings.attention,
            filters=tuple(settings.filters * factor for factor in (1, 2, 4)),
            dropout=settings.dropout,
            mixture_share=settings.mixture_share,
            first_state=settings.first_state,
            seed=settings.seed,
        )

    def batches(self, run: RunDirectory) -> SeekableBatches:
        settings, tokenizer = self._settings, PieceTokenizer(WORDS)
        images, labels = _digits(is_validation=False)
        scenes = digit_scene_batches(
            images, labels, settings.batch_size, settings.seed, settings.size
        )
        return scenes.mapped(
            lambda images, captions, _: caption_batch(
                images, tokenizer.tokenize(captions), MAX_LENGTH - 1
            )
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
        return CaptionModel(model, PieceTokenizer(WORDS), MAX_LENGTH, read=self.image_of)

    def validate(
        self, text_model: CaptionModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        return {"exact_match": self.measured(text_model, self._validation())["exact_match"]}

    def evaluate(self, text_model: CaptionModel, count: int = 2_000) -> dict[str, float]:
        """The share of canvases whose whole caption is right, and where it looked.

        `attention` is how much of it lies on the digit whose name is being written, over those
        captions that are right. With the images of other captions, or with its attention on other
        places, the same model shows what it does without seeing, and without looking.
        """
        images, labels = mnist("test")
        scenes = digit_scenes(images, labels, count, self._settings.seed + 2, self._settings.size)
        others = scenes._replace(images=tf.roll(scenes.images, 1, axis=0))
        elsewhere = self.text_model(MovedAttention(text_model.model), RunDirectory("."))
        return {
            **self.measured(text_model, scenes),
            "exact_match of other images": self.measured(text_model, others)["exact_match"],
            "exact_match of other places": self.measured(elsewhere, scenes)["exact_match"],
        }

    def measured(self, text_model: CaptionModel, scenes: DigitScenes) -> dict[str, float]:
        """The share of right captions, and of their attention that is on the named digit."""
        told = [
            {name: value.numpy() for name, value in text_model.describe(images).items()}
            for images in tf.split(scenes.images, _parts(len(scenes.images)))
        ]
        captions = np.concatenate([part["caption"] for part in told])
        is_right = captions == scenes.captions.numpy()
        shares = []
        for maps, lengths, right, corners in zip(
            [row for part in told for row in part["maps"]],
            np.concatenate([part["lengths"] for part in told]),
            is_right,
            scenes.corners.numpy(),
            strict=True,
        ):
            if right:  # the first word and the last one before the end are the digits
                mass = mass_on_digits(maps[None], corners[None], self._settings.size)[0]
                shares += [mass[0, 0], mass[lengths - 2, 1]]
        attention = float(np.mean(shares)) if shares else 0.0
        return {"exact_match": float(np.mean(is_right)), "attention": attention}

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The share of captions that are right as a whole."""
        pairs = zip(answers, references, strict=True)
        right = sum(answer.split() == reference.split() for answer, reference in pairs)
        return {"exact_match": right / len(references)}

    def validation_texts(self, count: int | None = None) -> tuple[list[str], list[str]]:
        """The numbers of the first canvases of the validation data, and their captions."""
        captions = self._validation().captions.numpy()[:count]
        return [str(number) for number in range(len(captions))], [
            caption.decode() for caption in captions
        ]

    def plot(self, text_model: CaptionModel, texts: Sequence[str | bytes]):
        """Each image, and where the model looked while it wrote each word."""
        return plot_captions(text_model.captions(texts))

    def image_of(self, line: str) -> np.ndarray:
        """The image that a line stands for.

        Raises:
            UserError: a number without a canvas, or a picture that cannot be read.
        """
        size = self._settings.size
        if not line.isdecimal():
            return read_picture(line, (size, size, 1))
        if int(line) >= VALIDATED:
            raise UserError(
                f"There are {VALIDATED} canvases, from 0 on; give a smaller number, or the path of "
                f"a picture. Received: {line}."
            )
        return self._validation().images[int(line)].numpy()

    def _validation(self) -> DigitScenes:
        """Canvases with those digits that are not trained on, made once."""
        if self._validated is None:
            digits = _digits(is_validation=True)
            seed, size = self._settings.seed + 1, self._settings.size
            self._validated = digit_scenes(*digits, VALIDATED, seed, size)
        return self._validated


class MovedAttention:
    """A control: a captioner that looks where it wants to and gets what lies elsewhere.

    Every place of the grid has the annotation of another one, the same for all images. All else is
    the model's: its weights and the maps that it reports.

    Args:
        model: a `models.ShowAttendTell`.
        seed: of the places.
    """

    def __init__(self, model: keras.Model, seed: int = 1):
        self.model = model
        self.grid, self.image_shape = model.grid, model.image_shape
        self.encode, self.step = model.encode, model.step
        self._order = np.random.default_rng(seed).permutation(model.grid[0] * model.grid[1])

    @property
    def variables(self) -> list:
        return self.model.variables

    def initial_state(self, memory: dict) -> dict:
        """The model's own first state, with the annotations of the memory moved behind it."""
        state = self.model.initial_state(memory)
        moved = tf.gather(memory["annotations"], self._order, axis=1)
        return {**state, "memory": {**memory, "annotations": moved}}


def _digits(is_validation: bool) -> list[np.ndarray]:
    """Images and labels of MNIST that are trained on, or the others of its training set."""
    digits = mnist("train")
    trained = int(len(digits[0]) * _TRAINED)
    return [each[trained:] if is_validation else each[:trained] for each in digits]


def _parts(rows: int, most: int = 500) -> list[int]:
    """The sizes of parts of so many rows."""
    return [min(most, rows - start) for start in range(0, rows, most)]
