"""Arrays of any type in one `.npz` file that shows its damage.

NumPy's files know neither bfloat16 nor the types of 8 bits and less, and a zip archive guards the
bytes of its members but not the table that says which members there are. Both are added here, in
a way that `numpy.load` still reads the file.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from keras_attn.files import written_whole
from keras_attn.paths import path_of

_FORMAT = "format"  # a file that begins with this entry has a checksum at its end
_DTYPE = "dtype/"
_COMMENT = b"keras_attn "


class BrokenArrayFileError(ValueError):
    """A file that is not what `write_arrays` wrote."""


def write_arrays(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    previous: str | os.PathLike | None = None,
) -> None:
    """Write arrays by name, whole or not at all; `previous` as in `written_whole`.

    A type that NumPy does not know of itself is stored as the bits of its numbers, and the name of
    the type beside them.

    Raises:
        UserError: if the disk is full or the place cannot be written.
        ValueError: if an array is of Python objects, which are neither numbers nor text.
    """
    stored = {_FORMAT: np.int64(2)}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(
                "Only numbers and text can be stored in a checkpoint. "
                f"Received: {name} of type {array.dtype}"
            )
        if array.dtype.isbuiltin == 2:  # made known to NumPy by another package
            stored[f"{_DTYPE}{name}"] = np.str_(array.dtype.name)
            array = array.view(f"u{array.dtype.itemsize}")
        stored[name] = array
    with written_whole(path, previous) as file:
        np.savez(file, **stored)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = _checksum(archive)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a file; one of `numpy.savez` is read too.

    Raises:
        BrokenArrayFileError: if the file is damaged.
        FileNotFoundError: if there is none.
        OSError: if it cannot be opened.
    """
    with path_of(path).open("rb") as file:
        try:
            stored = _read(file)
        except Exception as error:  # what zipfile and NumPy raise for damage has no common kind
            raise BrokenArrayFileError(str(error) or type(error).__name__) from error
    return {
        name: value.view(_type_of(stored, name))
        for name, value in stored.items()
        if name != _FORMAT and not name.startswith(_DTYPE)
    }


def _read(file) -> dict[str, np.ndarray]:
    is_guarded = f"{_FORMAT}.npy".encode() in file.read(64)
    with zipfile.ZipFile(file) as archive:
        is_guarded |= archive.comment.startswith(_COMMENT)
        if is_guarded and archive.comment != _checksum(archive):
            raise ValueError("its table of contents is damaged")
        if not archive.infolist():
            raise ValueError("it is empty")
        return {
            info.filename.removesuffix(".npy"): _array(archive.read(info))
            for info in archive.infolist()
        }


def _checksum(archive: zipfile.ZipFile) -> bytes:
    """Of names, sizes and CRCs; a CRC covers the type, the shape and the bytes of an array.

    `zipfile` compares the CRC of a member that is read to its end.
    """
    table = [(info.filename, info.file_size, info.CRC) for info in archive.infolist()]
    return _COMMENT + hashlib.sha256(repr(table).encode()).hexdigest().encode()


def _array(content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    array = np.lib.format.read_array(stream, allow_pickle=False)
    if stream.read(1):
        raise ValueError("an array is longer than its shape says")
    return array


def _type_of(stored: Mapping[str, np.ndarray], name: str) -> np.dtype:
    """The type that an array had before it was stored."""
    kind = stored.get(f"{_DTYPE}{name}")
    return stored[name].dtype if kind is None else np.dtype(getattr(ml_dtypes, str(kind)))
