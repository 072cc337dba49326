"""Multi30k as a corpus of the translation recipe: its raw text, or in published pieces."""

from keras_attn.data.multi30k import multi30k_files, multi30k_piece_files
from keras_attn.data.pair_files import AlignedFiles


class Multi30kCorpus:
    """Captions from one language to another; the files are looked for when they are asked for.

    Args:
        source, target: of `data.multi30k.LANGUAGES`.
    """

    def __init__(self, source: str = "en", target: str = "de"):
        self._languages = source, target

    def training(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_files("train", *self._languages))

    def validation(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_files("val", *self._languages))

    def tests(self) -> dict[str, AlignedFiles]:
        return {"test2016": AlignedFiles(*multi30k_files("test_2016_flickr", *self._languages))}


class Multi30kPieceCorpus:
    """The same captions lowercased, tokenised and cut as Wu et al. 2021 published them."""

    def training(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_piece_files("train"))

    def validation(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_piece_files("valid"))

    def tests(self) -> dict[str, AlignedFiles]:
        return {"test2016": AlignedFiles(*multi30k_piece_files("test.2016"))}
