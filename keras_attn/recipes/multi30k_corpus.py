"""Multi30k's raw text as a corpus of the translation recipe."""

from pathlib import Path

from keras_attn.data.multi30k import multi30k_files


class Multi30kCorpus:
    """Captions from English to German; the files are looked for when they are asked for."""

    def training(self) -> tuple[Path, Path]:
        return multi30k_files("train")

    def validation(self) -> tuple[Path, Path]:
        return multi30k_files("val")

    def tests(self) -> dict[str, tuple[Path, Path]]:
        return {"test2016": multi30k_files("test_2016_flickr")}
