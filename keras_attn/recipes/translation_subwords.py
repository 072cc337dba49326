"""How the text of a translation recipe becomes ids: subwords learned here, or published pieces."""

import itertools
from collections import Counter
from typing import Protocol

import tensorflow as tf

from keras_attn.data.pair_files import PairFiles
from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.recipes.subword_file import SUBWORD_FILE, read_subword_model
from keras_attn.recipes.translation_settings import DEFAULT_VOCABULARY
from keras_attn.serving.text_model import SIGNATURES
from keras_attn.text.pieces import PieceTokenizer, joined
from keras_attn.text.subwords import (
    SubwordTokenizer,
    learn_at_most_subwords,
    learn_subwords,
)
from keras_attn.training import RunDirectory

PIECES_FILE = "pieces.json"


class Subwords(Protocol):
    """A tokenizer that is made from the training text and kept in the run directory.

    Attributes:
        file: of the run directory.
        tokenized: whether the text is lowercased and tokenised already, see `translation_quality`.
        exported: the signatures that make sense for an exported model.
        packages: optional ones that are needed until the file is there.
    """

    file: str
    packages: tuple[str, ...]
    tokenized: bool
    exported: tuple[str, ...]

    def prepare(self, run: RunDirectory, files: PairFiles) -> None:
        """Write `file` into the run directory."""

    def tokenizer(self, run: RunDirectory):
        """That of the run.

        Raises:
            UserError: if the vocabulary of the run is not of the size that was asked for.
        """

    def words(self, texts: list[str]) -> list[str]:
        """The text of lines as it is scored."""


class LearnedSubwords:
    """One joint BPE, learned from raw text.

    Args:
        vocabulary_size: how many ids there are; by default `DEFAULT_VOCABULARY`, or as many as the
            text allows.
    """

    file = SUBWORD_FILE
    packages = ("sentencepiece",)
    tokenized = False
    exported = SIGNATURES

    def __init__(self, vocabulary_size: int | None = None):
        self.vocabulary_size = vocabulary_size

    def prepare(self, run: RunDirectory, files: PairFiles) -> None:
        wanted = self.vocabulary_size or DEFAULT_VOCABULARY
        run.log(f"Learning {wanted} subwords from {files}")
        lines = itertools.chain.from_iterable(files.pairs())
        learn = learn_subwords if self.vocabulary_size else learn_at_most_subwords
        model = learn(lines, wanted)
        reached = SubwordTokenizer(model).vocabulary_size
        if reached < wanted:
            run.log(f"The text allows {reached} subwords, so that is the size of the vocabulary")
        with written_whole(run.path / SUBWORD_FILE) as file:
            file.write(model)

    def tokenizer(self, run: RunDirectory) -> SubwordTokenizer:
        found = SubwordTokenizer(read_subword_model(run.path))
        if self.vocabulary_size not in (None, found.vocabulary_size):
            raise UserError(
                f"{run.path} has a vocabulary of {found.vocabulary_size} subwords, not of "
                f"{self.vocabulary_size}; leave --vocabulary-size out."
            )
        return found

    def words(self, texts: list[str]) -> list[str]:
        return texts


class PublishedPieces:
    """Text that was published lowercased, tokenised and cut into pieces.

    How it was cut is not part of the model, so that an export answers ids only.
    """

    file = PIECES_FILE
    packages = ()
    tokenized = True
    exported = ("tokens",)

    def prepare(self, run: RunDirectory, files: PairFiles) -> None:
        counts = Counter()
        for pair in files.pairs():
            for line in pair:
                counts.update((line or "").split())
        run.write_json(PIECES_FILE, [piece for piece, _ in counts.most_common()])

    def tokenizer(self, run: RunDirectory) -> PieceTokenizer:
        return PieceTokenizer(run.read_json(PIECES_FILE))

    def words(self, texts: list[str]) -> list[str]:
        return [text.decode() for text in joined(tf.constant(texts)).numpy()]
