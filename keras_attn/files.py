"""Files that are either whole or not there."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of


@contextmanager
def written_whole(
    path: str | os.PathLike, previous: str | os.PathLike | None = None
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when it is complete.

    The bytes go to a neighbour of the file, reach the disk, and are renamed at the end; whatever
    stops the writing before leaves the old file as it was.

    Args:
        path: of the file, on a disk or on any file system of `tf.io.gfile`.
        previous: where the old file goes when the new one is complete, or None: it is replaced.

    Raises:
        UserError: if the disk is full or the place cannot be written.
    """
    path = path_of(path)
    whole = _written_remotely if isinstance(path, RemotePath) else _written_here
    with whole(path, None if previous is None else path_of(previous)) as file:
        yield file


@contextmanager
def _written_here(path: Path, previous: Path | None) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"Cannot write {path}: {path.parent} is not a directory.") from error
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o666 & ~_umask())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(unfinished, path)
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {error.strerror}; what stood there before is unharmed."
        ) from error
    finally:
        Path(unfinished).unlink(missing_ok=True)


@contextmanager
def _written_remotely(path: RemotePath, previous: RemotePath | None) -> Iterator[IO[bytes]]:
    """The bytes are gathered on this machine's disk, for not every file system can go back."""
    unfinished = path.parent / f".{path.name}-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        try:
            path.parent.mkdir()
            with unfinished.open("wb") as copy:
                copy.write(b"")  # else a file that stays empty is not made
                shutil.copyfileobj(file, copy, 1 << 24)
            if previous is not None and path.exists():
                path.replace(previous)
            unfinished.replace(path)
        except OSError as error:
            raise UserError(
                f"Cannot write {path}: {error.strerror}; what stood there before is unharmed."
            ) from error


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
