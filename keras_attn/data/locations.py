"""Where corpora lie on this computer."""

import os
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of


def corpus_directory(name: str, files: list[str], how_to_get: str) -> Path | RemotePath:
    """The directory of a corpus, after a look whether its files are there.

    It lies below the directory that the environment variable KERAS_ATTN_DATA names, on any file
    system of `tf.io.gfile`, or below Keras' cache if there is no such variable:
    `datasets/keras_attn` in `KERAS_HOME`, else in `~/.keras`.

    Args:
        name: of the corpus and its directory.
        files: that must be there.
        how_to_get: a clause that ends the message if they are not.

    Raises:
        UserError: if a file is missing; it says where it was looked for.
    """
    directory = _root() / name
    missing = [file for file in files if not (directory / file).is_file()]
    if missing:
        raise UserError(
            f"{name} is not complete: {', '.join(missing)} looked for in {directory.absolute()} "
            f"(below KERAS_ATTN_DATA if that is set, else Keras' cache); {how_to_get}."
        )
    return directory


def corpus_file(name: str, how_to_get: str) -> Path | RemotePath:
    """A corpus of one file: below KERAS_ATTN_DATA, or where Keras keeps its own data sets.

    Args:
        name: of the file.
        how_to_get: a clause that ends the message if it is not there.

    Raises:
        UserError: if it is nowhere; it says where it was looked for.
    """
    keras_home = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    places = [_root() / name, keras_home / "datasets" / name]
    for place in places:
        if place.is_file():
            return place
    looked = " and ".join(str(place.absolute()) for place in dict.fromkeys(places))
    raise UserError(f"There is no {name}: looked for {looked}; {how_to_get}.")


def _root() -> Path | RemotePath:
    if root := os.environ.get("KERAS_ATTN_DATA"):
        return path_of(os.path.expanduser(root))
    keras_home = os.environ.get("KERAS_HOME") or "~/.keras"
    return Path(keras_home).expanduser() / "datasets" / "keras_attn"
