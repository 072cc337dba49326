"""Files opened for reading, on a disk or on any file system of `tf.io.gfile`."""

import io
import os
from typing import BinaryIO

import tensorflow as tf

from keras_attn.paths import RemotePath, path_of

_READ_AHEAD = 1 << 20  # bytes; a request to a remote file system takes long, whatever its size


def opened(path: str | os.PathLike | RemotePath, read_ahead: int = _READ_AHEAD) -> BinaryIO:
    """A file opened to read bytes, with all that files of Python can do.

    Args:
        path: of the file.
        read_ahead: bytes that are at least read at once of a remote file.

    Raises:
        OSError: if there is no such file or it cannot be read.
    """
    path = path_of(path)
    if isinstance(path, RemotePath):
        return io.BufferedReader(_Remote(path), read_ahead)
    return path.open("rb")


class _Remote(io.RawIOBase):
    """A file of `tf.io.gfile` as Python's buffers read it."""

    def __init__(self, path: RemotePath):
        self._size = path.size()
        self._path = path
        self._file = tf.io.gfile.GFile(str(path), "rb")
        self._place = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._place

    def seek(self, offset, whence=os.SEEK_SET):
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}
        self._place = starts[whence] + offset
        return self._place

    def readinto(self, buffer):
        try:
            self._file.seek(self._place)
            content = self._file.read(min(len(buffer), max(0, self._size - self._place)))
        except tf.errors.OpError as error:
            raise OSError(error.error_code, error.message, str(self._path)) from error
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)

    def close(self):
        if not self.closed:
            self._file.close()
        super().close()
