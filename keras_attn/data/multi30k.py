"""Multi30k: 29,000 captions of photographs in English and German, and their test sets.

Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions".
"""

from pathlib import Path

from keras_attn.data.locations import corpus_directory

SPLITS = ("train", "val", "test_2016_flickr")
_HOW_TO_GET = (
    "nothing is downloaded: get the files from https://github.com/multi30k/dataset "
    "(data/task1/raw), unpack them and put them there"
)


def multi30k_files(split: str, source: str = "en", target: str = "de") -> tuple[Path, Path]:
    """The raw text of a split: its source file and its target file, line n for line n.

    Args:
        split: `train` (29,000 pairs), `val` (1,014) or `test_2016_flickr` (1,000).
        source, target: languages, as the files end.

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
