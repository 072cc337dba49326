"""Paths of this machine's disks, and of the file systems that TensorFlow reaches by a scheme."""

import errno
import fnmatch
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9.]*://")


def path_of(place: "str | os.PathLike | RemotePath") -> "Path | RemotePath":
    """The path of a place: a `Path`, or a `RemotePath` if it has a scheme, as in `gs://bucket`.

    Example:
        >>> path_of("ram://runs") / "mine"
        RemotePath('ram://runs/mine')
        >>> path_of(path_of("ram://runs")).name
        'runs'
    """
    if isinstance(place, RemotePath):
        return place
    place = os.fspath(place)
    return RemotePath(place) if _SCHEME.match(place) else Path(place)


class RemotePath:
    """A path of a file system of `tf.io.gfile`, with those methods of `pathlib.Path` used here.

    It is no `os.PathLike`: what would open it as a file of this machine must fail at once.

    Args:
        place: with its scheme, such as `gs://bucket/runs` or `ram://runs`.

    Raises:
        OSError: from all that reads and writes, in the kinds that `pathlib` raises.
    """

    def __init__(self, place: str):
        scheme = _SCHEME.match(place)
        if scheme is None:
            raise ValueError(
                f"A remote path begins with a scheme, such as gs://. Received: place={place!r}"
            )
        self._scheme = scheme[0]
        self._rest = PurePosixPath(place[len(self._scheme) :])

    def __str__(self) -> str:
        return f"{self._scheme}{self._rest}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: "RemotePath") -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self._scheme}{self._rest / name}")

    @property
    def name(self) -> str:
        return self._rest.name

    @property
    def stem(self) -> str:
        return self._rest.stem

    @property
    def suffix(self) -> str:
        return self._rest.suffix

    @property
    def parent(self) -> "RemotePath":
        return RemotePath(f"{self._scheme}{self._rest.parent}")

    def absolute(self) -> "RemotePath":
        return self

    def exists(self) -> bool:
        return _gfile().exists(str(self))

    def is_dir(self) -> bool:
        return _gfile().isdir(str(self))

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    @contextmanager
    def open(self, mode: str = "r", encoding: str | None = None) -> Iterator[IO]:
        """A file of `tf.io.gfile`, which reads and writes UTF-8, for a `with` statement."""
        with _errors_of_python(self):
            if "r" in mode and not self.exists():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
            with _gfile().GFile(str(self), mode) as file:
                yield file

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str | None = None) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        with self.open("wb") as file:
            file.write(content)

    def size(self) -> int:
        """In bytes."""
        with _errors_of_python(self):
            return _gfile().stat(str(self)).length

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        with _errors_of_python(self):
            _gfile().makedirs(str(self))

    def replace(self, target: "RemotePath") -> None:
        """Rename the file; what stood at the target goes."""
        with _errors_of_python(self):
            _gfile().rename(str(self), str(target), overwrite=True)

    def unlink(self, missing_ok: bool = False) -> None:
        with _errors_of_python(self):
            if not (missing_ok and not self.exists()):
                _gfile().remove(str(self))

    def glob(self, pattern: str) -> Iterator["RemotePath"]:
        """What in this directory has a name of that pattern; not what is deeper."""
        if not self.is_dir():
            return
        with _errors_of_python(self):
            names = [name.rstrip("/") for name in _gfile().listdir(str(self))]
        yield from (self / name for name in sorted(names) if fnmatch.fnmatchcase(name, pattern))


@contextmanager
def _errors_of_python(path: RemotePath) -> Iterator[None]:
    """Turns TensorFlow's errors about files into those that Python's own files raise."""
    import tensorflow as tf

    kinds = {
        tf.errors.NotFoundError: FileNotFoundError,
        tf.errors.AlreadyExistsError: FileExistsError,
        tf.errors.PermissionDeniedError: PermissionError,
    }
    try:
        yield
    except tf.errors.OpError as error:
        kind = kinds.get(type(error), OSError)
        raise kind(error.error_code, error.message, str(path)) from error


def _gfile():
    import tensorflow as tf  # slow, and not needed for the files of this machine

    return tf.io.gfile
