"""translation: two aligned text files to a model that translates."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from keras_attn.analysis import plot_alignments, sentence_maps
from keras_attn.counted import counter
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.pair_files import PairFiles, texts_of
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.token_batches import token_batches
from keras_attn.errors import UserError
from keras_attn.protocols import SupportsAttentionMaps
from keras_attn.recipes.answering import answered
from keras_attn.recipes.translation_models import SCHEDULES
from keras_attn.recipes.translation_quality import translation_quality
from keras_attn.recipes.translation_settings import TranslatorSettings
from keras_attn.recipes.translation_subwords import Subwords
from keras_attn.serving.text_model import TextModel
from keras_attn.training import (
    NO_LIMITS,
    Budget,
    RunDirectory,
    ValidationLimits,
    projected_token_objective,
)

PAIRS_FILE = "pairs.bin"
_BATCH = 128  # of texts that are translated together
FIXED_LENGTHS = (8, 12, 16, 24, 32, 48, 64, 96)
"""Of batches in few shapes: steps of a third or a half."""


class Corpus(Protocol):
    """Where a translation recipe finds its pairs."""

    def training(self) -> PairFiles: ...

    def validation(self) -> PairFiles: ...

    def tests(self) -> dict[str, PairFiles]: ...


class Translation:
    """A sequence model over the subwords of both languages, embeddings shared and tied.

    Args:
        name: of the recipe.
        corpus: the files.
        subwords: how text becomes ids.
        build: `build(vocabulary_size, options) -> model`, untrained.
        settings: what makes two runs different: the arguments of the recipe.
        options: those of the model and its training.
        samples: sentences worth showing.
        test_data: what `evaluate` scores, see `recipes.recipe.Recipe`.

    Attributes:
        validation_pairs: how many pairs it is validated on; None for all.
    """

    budget = Budget(minutes=TranslatorSettings.default_minutes)

    def __init__(
        self,
        name: str,
        corpus: Corpus,
        subwords: Subwords,
        build: Callable[[int, dict], keras.Model],
        settings: dict[str, Any],
        options: dict[str, Any],
        samples: tuple[str, ...] = (),
        test_data: str = "",
    ):
        self.name = name
        self.settings = settings
        self.samples = samples
        self.test_data = test_data
        self.clip_norm = options["clip_norm"]
        self.averaged = options["averaged"]
        self.validations = options["validations"]
        self.prepared_files = (subwords.file, PAIRS_FILE)
        self.vocabulary_files = (subwords.file,)
        self.validation_pairs: int | None = None
        self._corpus = corpus
        self._subwords = subwords
        self._build = build
        self._options = options
        self._rate = SCHEDULES[options["schedule"]](
            options["learning_rate"], options["warmup_steps"]
        )

    def packages(self, run: RunDirectory) -> Sequence[str]:
        learning = () if run.has(self._subwords.file) else self._subwords.packages
        return ("sacrebleu", *learning)

    def prepare(self, run: RunDirectory) -> None:
        """Make the subwords and tokenise the training text, once for a run."""
        files, validation = self._corpus.training(), self._corpus.validation()
        for each in (files, validation):
            each.check()
        texts_of(validation, self.validation_pairs)  # refused before it is needed
        if str(validation) == str(files):
            run.log("The validation text is the training text: the best model is the best learner")
        if not run.has(self._subwords.file):
            self._subwords.prepare(run, files)
        if not run.has(PAIRS_FILE):
            tokenizer = self._subwords.tokenizer(run)
            counts = write_pair_store(
                run.path / PAIRS_FILE,
                files.pairs(),
                tokenizer,
                tokenizer,
                max_tokens=self._options["max_tokens"],
            )
            run.log(
                f"{counts.lines} line pairs: {counts.kept} kept, {counts.empty} with an empty side "
                f"and {counts.too_long} longer than {self._options['max_tokens']} tokens dropped"
            )

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self._options["seed"])
        return self._build(self._subwords.tokenizer(run).vocabulary_size, self._options)

    def batches(self, run: RunDirectory) -> SeekableBatches:
        store = PairStore(run.path / PAIRS_FILE)
        return token_batches(store, self._options["batch_tokens"], self._options["seed"])

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        store, tokens = PairStore(run.path / PAIRS_FILE), self._options["batch_tokens"]
        lengths = [length for length in FIXED_LENGTHS if length < store.longest] + [store.longest]
        batches = token_batches(store, tokens, self._options["seed"], lengths)
        return with_fixed_shapes(batches, {length: tokens // length for length in lengths})

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(beta_2=0.98)

    def learning_rate(self, used: float, step: int) -> float:
        return self._rate(used, step)

    def objective(self) -> Callable:
        return projected_token_objective(self._options["label_smoothing"])

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        tokenizer, longest = self._subwords.tokenizer(run), self._options["max_tokens"]
        return TextModel(
            model, tokenizer, tokenizer, longest, longest, exported=self._subwords.exported
        )

    def validation_texts(self, count: int | None = None) -> tuple[list[str], list[str]]:
        """The first sources and targets of the validation text."""
        return texts_of(self._corpus.validation(), count)

    def validate(
        self, text_model: TextModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """Scores of bounded answers: a model that has learned little would go on to the limit."""
        sources, references = texts_of(self._corpus.validation(), self.validation_pairs)
        answers, started = {}, time.monotonic()
        for done, rows in enumerate(_batches_by_length(sources)):
            if done and (time.monotonic() - started) * (done + 1) / done > limits.seconds:
                break
            texts = [sources[row] for row in rows]
            answers.update(zip(rows, _bounded(text_model, texts, limits.is_young), strict=True))
        quality = self._quality(answers, references)
        cut_short = {"lines": len(answers)} if len(answers) < len(sources) else {}
        return {"bleu": quality["bleu"], "chrf": quality["chrf"], **cut_short}

    def evaluate(self, text_model: TextModel) -> dict[str, float | str]:
        found = {}
        for name, files in self._corpus.tests().items():
            sources, references = texts_of(files)
            with counter(f"{name}: translated", len(sources)) as count:
                answers = [
                    answer.texts[0]
                    for _, answer in answered(
                        text_model, sources, _BATCH, window=len(sources), count=count
                    )
                ]
            quality = self.score(answers, references)
            found.update({f"{name} {metric}": value for metric, value in quality.items()})
        return found

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
        """BLEU and chrF, and the signatures that say how sacreBLEU counted."""
        return translation_quality(
            answers, self._subwords.words(list(references)), self._subwords.tokenized
        )

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        if not text_model.aligns:
            raise UserError(
                f"The model of {self.name}, {type(text_model.model).__name__}, has no attention: "
                "there is no alignment to draw."
            )
        return plot_alignments(text_model.alignments(texts))

    def head_maps(
        self,
        text_model: TextModel,
        sources: Sequence[str | bytes],
        targets: Sequence[str] | None = None,
    ) -> dict[str, list]:
        if not isinstance(text_model.model, SupportsAttentionMaps):
            raise UserError(
                f"The model of this run, {type(text_model.model).__name__}, is without heads; "
                "train a Transformer."
            )
        return sentence_maps(text_model, sources, targets)

    def _quality(self, answers: dict[int, str], references: list[str]) -> dict:
        """The scores of the answers to some rows."""
        rows = sorted(answers)
        return self.score([answers[row] for row in rows], [references[row] for row in rows])


def _batches_by_length(texts: list[str]) -> list[list[int]]:
    """The rows of texts of like length together, the batches in an order that mixes lengths.

    Whoever stops before the end has seen short and long texts, the same ones every time.
    """
    by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    batches = [by_length[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    random.Random(1).shuffle(batches)
    return batches


def _bounded(text_model: TextModel, texts: list[str], is_young: bool) -> list[str]:
    """Answers of at most twice as many tokens as a text has, and ten.

    A young model seldom ends an answer by itself; it is given as many as the text has, and five.
    """
    batch = tf.constant(texts)
    lengths = tf.cast(text_model.source_tokenizer.tokenize(batch).row_lengths(), tf.int32)
    longest = lengths + 5 if is_young else 2 * lengths + 10
    answers = text_model.translate_bounded(batch, longest)["text"].numpy()
    return [answer.decode() for answer in answers]
