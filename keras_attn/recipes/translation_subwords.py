"""How the text of a translation recipe becomes ids: subwords learned here, or published pieces."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Protocol

import tensorflow as tf

from keras_attn.data.aligned_text import aligned_lines
from keras_attn.files import written_whole
from keras_attn.recipes.subword_file import SUBWORD_FILE, read_subword_model
from keras_attn.serving.text_model import SIGNATURES
from keras_attn.text.pieces import PieceTokenizer, joined
from keras_attn.text.subwords import SubwordTokenizer, learn_subwords
from keras_attn.training import RunDirectory

PIECES_FILE = "pieces.json"
VOCABULARY_SIZE = 8_000


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

    def prepare(self, run: RunDirectory, source: Path, target: Path) -> None: ...

    def tokenizer(self, run: RunDirectory): ...

    def words(self, texts: list[str]) -> list[str]:
        """The text of lines as it is scored."""


class LearnedSubwords:
    """One joint BPE, learned from raw text.

    Args:
        vocabulary_size: how many ids there are; None for 8000, or as many as the text allows.
    """

    file = SUBWORD_FILE
    packages = ("sentencepiece",)
    tokenized = False
    exported = SIGNATURES

    def __init__(self, vocabulary_size: int | None = None):
        self._vocabulary_size = vocabulary_size

    def prepare(self, run: RunDirectory, source: Path, target: Path) -> None:
        wanted = self._vocabulary_size or VOCABULARY_SIZE
        run.log(f"Learning {wanted} subwords from {source}, {target}")
        lines = itertools.chain.from_iterable(aligned_lines(source, target))
        model = learn_subwords(lines, wanted, shrinks=self._vocabulary_size is None)
        reached = SubwordTokenizer(model).vocabulary_size
        if reached < wanted:
            run.log(f"The text allows {reached} subwords only, so many were learned.")
        with written_whole(run.path / SUBWORD_FILE) as file:
            file.write(model)

    def tokenizer(self, run: RunDirectory) -> SubwordTokenizer:
        return SubwordTokenizer(read_subword_model(run.path))

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

    def prepare(self, run: RunDirectory, source: Path, target: Path) -> None:
        counts = Counter()
        for pair in aligned_lines(source, target):
            for line in pair:
                counts.update((line or "").split())
        run.write_json(PIECES_FILE, [piece for piece, _ in counts.most_common()])

    def tokenizer(self, run: RunDirectory) -> PieceTokenizer:
        return PieceTokenizer(run.read_json(PIECES_FILE))

    def words(self, texts: list[str]) -> list[str]:
        return [text.decode() for text in joined(tf.constant(texts)).numpy()]
