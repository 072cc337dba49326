"""Multi30k as a corpus of the translation recipe: its raw text, or in published pieces."""

from pathlib import Path

from keras_attn.data.multi30k import LANGUAGES, multi30k_files, multi30k_piece_files
from keras_attn.errors import UserError


class Multi30kCorpus:
    """Captions from one language to another; the files are looked for when they are asked for.

    Args:
        source, target: two different ones of `LANGUAGES`.

    Raises:
        UserError: if they are not.
    """

    def __init__(self, source: str = "en", target: str = "de"):
        if source == target or not {source, target} <= set(LANGUAGES):
            raise UserError(
                f"The raw text of Multi30k is in {', '.join(LANGUAGES)}; --languages names two of "
                f"them, that of the source first. Received: {source} {target}."
            )
        self._languages = source, target

    def training(self) -> tuple[Path, Path]:
        return multi30k_files("train", *self._languages)

    def validation(self) -> tuple[Path, Path]:
        return multi30k_files("val", *self._languages)

    def tests(self) -> dict[str, tuple[Path, Path]]:
        return {"test2016": multi30k_files("test_2016_flickr", *self._languages)}


class Multi30kPieceCorpus:
    """The same captions lowercased, tokenised and cut as Wu et al. 2021 published them."""

    def training(self) -> tuple[Path, Path]:
        return multi30k_piece_files("train")

    def validation(self) -> tuple[Path, Path]:
        return multi30k_piece_files("valid")

    def tests(self) -> dict[str, tuple[Path, Path]]:
        return {"test2016": multi30k_piece_files("test.2016")}
