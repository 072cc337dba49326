"""Two treebanks whose trees may be had without a licence, a tree a line.

`treebank_nltk` is the sample of the Penn Treebank's Wall Street Journal that comes with NLTK, drawn
by hand; for research only. `gum_const` is GUM (Zeldes 2017), texts of many kinds; its brackets are
silver: a parser made them from tags drawn by hand.
"""

from pathlib import Path

from keras_attn.data.locations import corpus_directory

TREEBANKS = ("treebank_nltk", "gum_const")
SPLITS = ("train", "dev", "test")
_HOW_TO_GET = {
    "treebank_nltk": "get packages/corpora/treebank.zip of https://github.com/nltk/nltk_data, and "
    "write the trees of its folder combined, a tree a line: those of the files 0001 to 0159 to "
    "train.trees, to 0179 to dev.trees, to 0199 to test.trees",
    "gum_const": "get the folder const of https://github.com/amir-zeldes/gum, and write its trees, "
    "a tree a line, to train.trees, dev.trees and test.trees as its splits.md says",
}


def treebank_file(treebank: str, split: str) -> Path:
    """The trees of a split, to be read by `data.bracketed_trees.read_trees`.

    Args:
        treebank: "treebank_nltk" (3,396, 273 and 245 trees) or "gum_const" (10,224, 1,575 and
            1,464).
        split: "train", "dev" or "test".

    Raises:
        ValueError: if there is no such treebank or split.
        UserError: if the file is not there; it says where it was looked for and how to get it.
    """
    if treebank not in TREEBANKS or split not in SPLITS:
        raise ValueError(
            f"There are the treebanks {', '.join(TREEBANKS)}, each with {', '.join(SPLITS)}. "
            f"Received: treebank={treebank!r}, split={split!r}"
        )
    how_to_get = f"nothing is downloaded: {_HOW_TO_GET[treebank]}"
    return corpus_directory(treebank, [f"{split}.trees"], how_to_get) / f"{split}.trees"
