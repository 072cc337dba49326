"""translation: two aligned text files to a model that translates raw text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import keras
import tensorflow as tf

from keras_attn.analysis import plot_alignments
from keras_attn.data.aligned_text import aligned_lines
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.token_batches import token_batches
from keras_attn.models import RNNSearch
from keras_attn.recipes.subword_file import SUBWORD_FILE, read_subword_model
from keras_attn.recipes.translation_quality import translation_quality
from keras_attn.serving.text_model import TextModel
from keras_attn.text.subwords import SubwordTokenizer, learn_subwords
from keras_attn.training import (
    Budget,
    RunDirectory,
    projected_token_objective,
    warmed_up_then_linear,
)
from keras_attn.training.files import written_whole

PAIRS_FILE = "pairs.bin"

DEFAULTS = {
    "vocabulary_size": 8_000,
    "embedding_dim": 128,
    "encoder_units": 128,
    "decoder_units": 256,
    "dropout": 0.2,
    "label_smoothing": 0.1,
    "learning_rate": 2e-3,
    "warmup_steps": 200,
    "batch_tokens": 512,
    "max_tokens": 128,
    "seed": 1,
}


class Corpus(Protocol):
    """Where a translation recipe finds its text: pairs of a source and a target file."""

    def training(self) -> tuple[Path, Path]: ...

    def validation(self) -> tuple[Path, Path]: ...

    def tests(self) -> dict[str, tuple[Path, Path]]: ...


class Translation:
    """RNNsearch over the subwords of one joint BPE, embeddings shared and tied.

    Args:
        name: of the recipe.
        corpus: the files.
        settings: the corpus' own and, of `DEFAULTS`, those that differ.
        samples: sentences worth showing.
    """

    budget = Budget(minutes=25)
    clip_norm = 1.0
    validations = 10
    prepared_files = (SUBWORD_FILE, PAIRS_FILE)

    def __init__(self, name: str, corpus: Corpus, settings: dict, samples: tuple[str, ...] = ()):
        self.name = name
        self.settings = settings
        self.samples = samples
        self._corpus = corpus
        self._options = {**DEFAULTS, **settings}
        self._rate = warmed_up_then_linear(
            self._options["learning_rate"], self._options["warmup_steps"]
        )

    def prepare(self, run: RunDirectory) -> None:
        """Learn the subwords and tokenise the training text, once for a run."""
        source, target = self._corpus.training()
        if not run.has(SUBWORD_FILE):
            next(aligned_lines(source, target), None)  # refuses files that do not belong together
            run.log(f"Learning {self._options['vocabulary_size']} subwords from {source}, {target}")
            lines = (line for pair in aligned_lines(source, target) for line in pair if line)
            model = learn_subwords(lines, self._options["vocabulary_size"])
            with written_whole(run.path / SUBWORD_FILE) as file:
                file.write(model)
        if not run.has(PAIRS_FILE):
            tokenizer = self._tokenizer(run)
            counts = write_pair_store(
                run.path / PAIRS_FILE,
                aligned_lines(source, target),
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
        size = self._tokenizer(run).vocabulary_size
        return RNNSearch(
            size,
            size,
            embedding_dim=self._options["embedding_dim"],
            encoder_units=self._options["encoder_units"],
            decoder_units=self._options["decoder_units"],
            attention_units=self._options["decoder_units"],
            readout_units=self._options["embedding_dim"],
            tie_embeddings=True,
            share_embeddings=True,
            dropout=self._options["dropout"],
        )

    def batches(self, run: RunDirectory) -> tf.data.Dataset:
        store = PairStore(run.path / PAIRS_FILE)
        return token_batches(store, self._options["batch_tokens"], self._options["seed"])

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam(beta_2=0.98)

    def learning_rate(self, used: float, step: int) -> float:
        return self._rate(used, step)

    def objective(self) -> Callable:
        return projected_token_objective(self._options["label_smoothing"])

    def text_model(self, model: keras.Model, run: RunDirectory) -> TextModel:
        tokenizer, longest = self._tokenizer(run), self._options["max_tokens"]
        return TextModel(model, tokenizer, tokenizer, longest, longest)

    def validate(self, text_model: TextModel) -> dict[str, float]:
        quality = _quality(text_model, *self._corpus.validation())
        return {"bleu": quality["bleu"], "chrf": quality["chrf"]}

    def evaluate(self, text_model: TextModel) -> dict[str, float | str]:
        found = {}
        for name, files in self._corpus.tests().items():
            quality = _quality(text_model, *files)
            found.update({f"{name} {metric}": value for metric, value in quality.items()})
        return found

    def plot(self, text_model: TextModel, texts: Sequence[str | bytes]):
        return plot_alignments(text_model.alignments(texts))

    def _tokenizer(self, run: RunDirectory) -> SubwordTokenizer:
        return SubwordTokenizer(read_subword_model(run.path))


def _quality(text_model: TextModel, source: Path, target: Path) -> dict:
    """Translate a file and score it; empty lines are translated like any other."""
    sources, references = zip(
        *((s or "", t or "") for s, t in aligned_lines(source, target)), strict=True
    )
    by_length = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    answers = text_model.answer([sources[row] for row in by_length], batch_size=128)
    translated = dict(zip(by_length, answers, strict=True))
    return translation_quality([translated[row] for row in range(len(sources))], references)
