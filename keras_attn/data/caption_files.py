"""Captions of pictures in a file: Karpathy's JSON, or lines of file and caption."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from keras_attn.errors import UserError
from keras_attn.paths import path_of

SPLITS = ("train", "validation", "test")
_SPLITS_OF_KARPATHY = {"train": "train", "restval": "train", "val": "validation", "test": "test"}
_EVERY = 20  # picture of a TSV is for validation
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Picture(NamedTuple):
    """A picture and what is said of it.

    Attributes:
        file: its path.
        captions: one at least, each words between spaces.
        split: one of `SPLITS`.
    """

    file: str
    captions: tuple[str, ...]
    split: str


def read_captions(captions, images) -> list[Picture]:
    """The pictures of a file of captions, in its order.

    In Karpathy's JSON, `{"images": [{"filename", "split", "sentences": [{"raw"}, ...]}, ...]}`,
    with a directory `filepath` for each where there are several, the splits `train` and `restval`
    are for training. A TSV has a file and a caption in each line, a file as often as it has
    captions; each twentieth picture, by its name, is for validation.

    Args:
        captions: the file; what ends in `.json` is JSON.
        images: the directory that the names of pictures begin at.

    Raises:
        UserError: a file that cannot be read or is of neither form; the sentence names the line or
            the picture. A split for training or validation without a picture.
    """
    path, directory = path_of(captions), path_of(images)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"The captions {path} cannot be read: {why}.") from error
    read = _of_json if path.suffix.lower() == ".json" else _of_tsv
    found = [
        Picture(str(directory / name), tuple(said), split) for name, said, split in read(text, path)
    ]
    for split in ("train", "validation"):
        if not any(picture.split == split for picture in found):
            raise UserError(
                f"{path} has no picture with a caption for {split}: of a TSV one in {_EVERY} is "
                "for validation, so give more pictures, or Karpathy's JSON, which says it of each."
            )
    return found


def words_of(caption: str) -> str:
    """The words of a caption between spaces, in small letters and without punctuation.

    Example:
        >>> words_of("A man's dog, running.")
        "a man's dog running"
    """
    return " ".join(_WORD.findall(caption.lower()))


def frequent_words(captions: Iterable[str], least_count: int) -> list[str]:
    """The words that occur so often at least, the most frequent first.

    Raises:
        UserError: if there is none.
    """
    counts = Counter(word for caption in captions for word in caption.split())
    kept = [word for word in counts if counts[word] >= least_count]
    if not kept:
        raise UserError(
            f"No word of the captions occurs {least_count} times; give more captions or a smaller "
            "--least-count."
        )
    return sorted(kept, key=lambda word: (-counts[word], word))


def of_split(pictures: Sequence[Picture], split: str) -> list[Picture]:
    """The pictures of a split."""
    return [picture for picture in pictures if picture.split == split]


def _of_json(text: str, path) -> Iterable[tuple]:
    try:
        images = json.loads(text)["images"]
        for image in images:
            name = "/".join(filter(None, (image.get("filepath"), image["filename"])))
            said = [words_of(_sentence(each)) for each in image["sentences"]]
            if said := [caption for caption in said if caption]:
                yield name, said, _SPLITS_OF_KARPATHY[image["split"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not Karpathy's JSON, an object whose `images` each have a `filename`, a "
            "`split` (train, restval, val or test) and `sentences` with their `raw` text: "
            f"{type(error).__name__}, {error}."
        ) from error


def _sentence(each: dict) -> str:
    return each["raw"] if "raw" in each else " ".join(each["tokens"])


def _of_tsv(text: str, path) -> Iterable[tuple]:
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, tab, caption = line.removeprefix("\ufeff").partition("\t")
        caption = words_of(caption)
        if not tab or not name.strip() or not caption:
            raise UserError(
                f"Line {number} of {path} is not a file, a tab and a caption. Received: "
                f"{line[:60]!r}."
            )
        captions.setdefault(name.strip(), []).append(caption)
    # In an order that has nothing to do with that of the names.
    digests = sorted(captions, key=lambda name: (zlib.crc32(name.encode()), name))
    validated = set(digests[::_EVERY]) if len(digests) > 1 else set()
    for name, said in captions.items():
        yield name, said, "validation" if name in validated else "train"
