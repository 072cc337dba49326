"""What Keras saves of this library and reads again: its classes, and whole models by file."""

import functools
import os
import re

import keras

from keras_attn.errors import UserError
from keras_attn.version import __version__

_PACKAGE = "keras_attn"
_ANOTHER_VERSION = "was written by another version"
# What Python and Keras say of arguments that a class does not take, or takes and was not given.
_ARGUMENTS = re.compile(
    r"[^\n:]*(unexpected keyword argument|nrecognized keyword argument|missing \d+ required)[^\n]*"
)


def registered(kind: type) -> type:
    """Register a class with Keras, so that files name it and `keras.models.load_model` finds it.

    A configuration that another version of the library wrote, with other arguments, is answered in
    a sentence.

    Raises:
        ValueError: by `from_config`, if the class takes no such arguments.
    """
    read = kind.from_config.__func__

    @classmethod
    @functools.wraps(read)
    def from_config(cls, *arguments, **options):
        try:
            return read(cls, *arguments, **options)
        except (TypeError, ValueError) as error:
            told = _ARGUMENTS.search(str(error))
            if told is None or _ANOTHER_VERSION in str(error):
                raise
            raise ValueError(
                f"The configuration of this {cls.__name__} {_ANOTHER_VERSION} of keras_attn than "
                f"{__version__}, which is installed: read it with that version. "
                f"Received: {told[0]}"
            ) from error

    kind.from_config = from_config
    return keras.saving.register_keras_serializable(package=_PACKAGE)(kind)


def load_model(path: str | os.PathLike, custom_objects: dict | None = None) -> keras.Model:
    """Read a model from a `.keras` file, as `keras.models.load_model`, with failures in a sentence.

    Args:
        path: of the file.
        custom_objects: classes and functions of your own by their names, where they are not
            registered with Keras.

    Raises:
        UserError: if there is no such file, it is damaged or no `.keras` file, it has a class that
            nobody registered, or was written by another version of the library.

    Example:
        >>> import keras
        >>> from keras_attn.layers import LSTM
        >>> from keras_attn.models import load_model
        >>> sequences = keras.Input((None, 3))
        >>> keras.Model(sequences, LSTM(4)(sequences)).save("model.keras")
        >>> load_model("model.keras").output_shape
        (None, 4)
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise UserError(f"There is no file {path}.")
    try:
        return keras.saving.load_model(path, custom_objects=custom_objects)
    except Exception as error:  # whatever Keras meets in a file that is not its own
        raise UserError(f"{path} is no model that can be read: {_explained(error)}") from error


def _explained(error: Exception) -> str:
    """The sentence that says why, out of the lines of configuration that Keras shows with it."""
    text = str(error)
    if ours := re.search(r"The configuration of this .*", text):
        return ours[0]
    unknown = re.search(r"Could not locate (?:class|function) '(\w+)'", text)
    if unknown:
        return (
            f"it has a {unknown[1]}, which neither Keras nor keras_attn {__version__} has. If the "
            "class is yours, import its module first or give `custom_objects`; else read the file "
            "with the version that wrote it."
        )
    if "could not be loaded" in text:
        return "its weights do not fit the layers that it describes; it is damaged."
    if isinstance(error, KeyError) or "not a zip file" in text or "zip" in text.lower():
        return "it is no `.keras` file, or a damaged one."
    nested = re.search(r"Exception encountered: (.+)|\x1b\[1m(.+)\x1b\[0m", text)
    return next(filter(None, nested.groups() if nested else text.splitlines()), repr(error))
