"""Multi30k: 29,000 captions of photographs in English, German and French, and their test sets.

Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions".
"""

from pathlib import Path

from keras_attn.data.locations import corpus_directory

LANGUAGES = ("en", "de", "fr")
SPLITS = ("train", "val", "test_2016_flickr")
PIECE_SPLITS = ("train", "valid", "test.2016", "test.2017", "test.coco")
_HOW_TO_GET = (
    "nothing is downloaded: get the files from https://github.com/multi30k/dataset "
    "(data/task1/raw), unpack them and put them there"
)
_HOW_TO_GET_PIECES = (
    "nothing is downloaded: get the files of data/multi30k-en-de from "
    "https://github.com/LividWo/Revisit-MMT and put them into en-de there"
)


def multi30k_files(split: str, source: str = "en", target: str = "de") -> tuple[Path, Path]:
    """The raw text of a split: its source file and its target file, line n for line n.

    Args:
        split: `train` (29,000 pairs), `val` (1,014) or `test_2016_flickr` (1,000).
        source, target: of `LANGUAGES`, as the files end.

    Raises:
        ValueError: if there is no such split.
        UserError: if the files are not there; it says where they were looked for and how to get
            them.

    Example:
        >>> english, german = multi30k_files("val")
        >>> english.name, german.name
        ('val.en', 'val.de')
    """
    if split not in SPLITS:
        raise ValueError(f"Multi30k has {', '.join(SPLITS)}. Received: split={split!r}")
    files = [f"{split}.{language}" for language in (source, target)]
    directory = corpus_directory("multi30k", files, _HOW_TO_GET)
    return directory / files[0], directory / files[1]


def multi30k_piece_files(split: str, source: str = "en", target: str = "de") -> tuple[Path, Path]:
    """A split in the pieces of Wu et al. 2021: lowercased, tokenised, joint BPE of 10,000 merges.

    Args:
        split: `train`, `valid`, `test.2016`, `test.2017` or `test.coco`.
        source, target: languages, as the files end.

    Raises:
        ValueError: if there is no such split.
        UserError: if the files are not there; it says where they were looked for and how to get
            them.

    Reference:
        Wu et al. 2021, "Good for Misconceived Reasons: An Empirical Revisiting on the Need for
        Visual Context in Multimodal Machine Translation".
    """
    if split not in PIECE_SPLITS:
        raise ValueError(
            f"Multi30k in pieces has {', '.join(PIECE_SPLITS)}. Received: split={split!r}"
        )
    files = [f"en-de/{split}.{language}" for language in (source, target)]
    directory = corpus_directory("multi30k_bpe_wu2021", files, _HOW_TO_GET_PIECES)
    return directory / files[0], directory / files[1]
