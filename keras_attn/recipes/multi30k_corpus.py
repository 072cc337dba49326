"""Multi30k as a corpus of the translation recipe: its raw text, or in published pieces."""

from pathlib import Path

from keras_attn.data.multi30k import multi30k_files, multi30k_piece_files


class Multi30kCorpus:
    """Captions from English to German; the files are looked for when they are asked for."""

    def training(self) -> tuple[Path, Path]:
        return multi30k_files("train")

    def validation(self) -> tuple[Path, Path]:
        return multi30k_files("val")

    def tests(self) -> dict[str, tuple[Path, Path]]:
        return {"test2016": multi30k_files("test_2016_flickr")}


class Multi30kPieceCorpus:
    """The same captions lowercased, tokenised and cut as Wu et al. 2021 published them."""

    def training(self) -> tuple[Path, Path]:
        return multi30k_piece_files("train")

    def validation(self) -> tuple[Path, Path]:
        return multi30k_piece_files("valid")

    def tests(self) -> dict[str, tuple[Path, Path]]:
        return {"test2016": multi30k_piece_files("test.2016")}
