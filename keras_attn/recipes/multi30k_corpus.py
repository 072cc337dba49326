"""Multi30k as a corpus of the translation recipe: its raw text, or in published pieces."""

from keras_attn.data.multi30k import multi30k_files, multi30k_piece_files
from keras_attn.data.pair_files import AlignedFiles


class Multi30kCorpus:
    """Captions from English to German; the files are looked for when they are asked for."""

    def training(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_files("train"))

    def validation(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_files("val"))

    def tests(self) -> dict[str, AlignedFiles]:
        return {"test2016": AlignedFiles(*multi30k_files("test_2016_flickr"))}


class Multi30kPieceCorpus:
    """The same captions lowercased, tokenised and cut as Wu et al. 2021 published them."""

    def training(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_piece_files("train"))

    def validation(self) -> AlignedFiles:
        return AlignedFiles(*multi30k_piece_files("valid"))

    def tests(self) -> dict[str, AlignedFiles]:
        return {"test2016": AlignedFiles(*multi30k_piece_files("test.2016"))}
