"""A training run on disk: its settings, what its recipe prepared, and its checkpoints."""

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import RemotePath, path_of
from keras_attn.training.background import BackgroundWriter
from keras_attn.training.locking import Lock

# What `written_whole` calls a file until it is whole.
_UNFINISHED = re.compile(r"\..+\.\w+-\w+")

_SECONDS_UNWRITTEN = 5.0


class RunDirectory:
    """The directory of one training run.

    `settings.json` names the recipe and its settings, written when the run begins; a run directory
    never changes its recipe or settings. It also notes what a run that goes on has to know, such as
    when it ends.

    Args:
        path: the directory, on a disk or on any file system of `tf.io.gfile`.

    Attributes:
        path: the directory.
        writer: writes the checkpoints beside the training, in their order.
        history: `history.jsonl`, what every step and the validations found.

    Example:
        >>> from keras_attn.training import RunDirectory
        >>> run = RunDirectory("runs/numbers")
        >>> run.begin("mine", {"units": 8})
        >>> run.description()
        {'recipe': 'mine', 'settings': {'units': 8}}
    """

    def __init__(self, path: str | os.PathLike | RemotePath):
        self.path = path_of(path)
        self.writer = BackgroundWriter()
        self._lock: Lock | None = None
        self.last_checkpoint = self.path / "last.npz"
        self.previous_checkpoint = self.path / "previous.npz"
        self.best_checkpoint = self.path / "best.npz"
        self.average_checkpoint = self.path / "average.npz"
        self.snapshots = self.path / "snapshots"
        self.history = self.path / "history.jsonl"
        self._unwritten: list[str] = []
        self._written = time.monotonic()

    @property
    def checkpoints(self) -> list[Path | RemotePath]:
        """All files of checkpoints and snapshots."""
        return [*self.path.glob("*.npz"), *self.snapshots.glob("*.npz")]

    @property
    def exists(self) -> bool:
        return (self.path / "settings.json").is_file()

    def begin(
        self,
        recipe: str,
        settings: dict,
        *,
        notes: dict | None = None,
        completed: Callable[[dict], dict] = lambda settings: settings,
    ) -> None:
        """Claim the directory for a recipe and its settings, or check that it is theirs.

        Args:
            recipe: its name.
            settings: what makes two runs different.
            notes: what is kept beside them and may change, by name.
            completed: gives the settings of an older run those that it does not name.

        Raises:
            UserError: if the directory belongs to another recipe or to other settings.
        """
        notes = json.loads(json.dumps(notes or {}))
        if not self.exists:
            self.write_json("settings.json", {"recipe": recipe, "settings": settings, **notes})
            return
        found = self.description()
        if found["recipe"] != recipe:
            raise UserError(
                f"{self.path} is a run of the recipe {found['recipe']!r}, not of {recipe!r}; "
                "choose another directory."
            )
        there, now = completed(found["settings"]), json.loads(json.dumps(settings))
        if there != now:
            differing = [
                f"{name} {there.get(name)!r} there, {now.get(name)!r} now"
                for name in sorted({*there, *now})
                if there.get(name) != now.get(name)
            ]
            raise UserError(
                f"{self.path} is a run of other settings ({'; '.join(differing)}); "
                "choose another directory."
            )
        if {**found, **notes} != found:
            self.write_json("settings.json", {**found, **notes})

    def forget(self, names: Iterable[str]) -> None:
        """Give the directory back: its settings, its log and the files of these names go."""
        for name in ("settings.json", "log.txt", *names):
            (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what processes that were killed while they wrote a file left behind."""
        for directory in (self.path, self.snapshots):
            for path in directory.glob(".*"):
                if _UNFINISHED.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While this lasts no other process trains into this directory.

        Everyone may go on reading. A lock that a process left which is dead is taken over, see
        `keras_attn.training.locking.Lock`, and the files go that it had begun to write.

        Raises:
            UserError: if another process holds the lock; the sentence names it.

        Example:
            >>> from keras_attn.training import RunDirectory
            >>> run = RunDirectory("runs/locked")
            >>> with run.locked():  # around `resume` and `fit`
            ...     run.record({"step": 1})
        """
        with Lock(self.path).held() as self._lock:
            try:
                self.sweep()
                yield
            finally:
                self._lock = None

    def require_lock(self) -> None:
        """Raise `UserError` if this process had locked the directory and lost it to another."""
        if self._lock is not None:
            self._lock.require()

    def rewind(self, step: int) -> None:
        """Take out of the history and the log what is told of later steps: they are done again."""
        self._keep_lines(self.history, lambda line: _step_of_entry(line) <= step)
        self._keep_lines(self.path / "log.txt", lambda line: _step_of_line(line) <= step)

    def _keep_lines(self, path: Path | RemotePath, is_kept: Callable[[bytes], bool]) -> None:
        if not path.is_file():
            return
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if is_kept(line)]
        if len(kept) < len(lines):
            with written_whole(path) as file:
                file.writelines(kept)

    def description(self) -> dict:
        """The recipe's name and settings.

        Raises:
            UserError: if this is not a run directory.
        """
        found = self.read_json("settings.json")
        if not isinstance(found, dict) or not {"recipe", "settings"} <= set(found):
            raise UserError(f"{self.path / 'settings.json'} does not describe a run of keras_attn.")
        return found

    def has(self, name: str) -> bool:
        """Whether a file of that name has been written."""
        return (self.path / name).is_file()

    def log(self, line: str) -> None:
        """Show a line on standard error and keep it in `log.txt`."""
        print(line, file=sys.stderr)
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def record(self, entry: dict) -> None:
        """Add a line to `history.jsonl`, of a step or a validation.

        Lines are gathered for some seconds, so that one a step costs nothing; `flush` writes them.
        JSON has no number for what is not finite, which becomes null.
        """
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in entry.items()
        }
        self._unwritten.append(json.dumps(finite) + "\n")
        if time.monotonic() - self._written > _SECONDS_UNWRITTEN:
            self.flush()

    def flush(self) -> None:
        """Write what was recorded; it must be there before a checkpoint says that it happened."""
        if self._unwritten:
            self.path.mkdir(parents=True, exist_ok=True)
            with self.history.open("a", encoding="utf-8") as file:
                file.write("".join(self._unwritten))
        self._unwritten.clear()
        self._written = time.monotonic()

    def write_json(self, name: str, content) -> None:
        with written_whole(self.path / name) as file:
            file.write(json.dumps(content, indent=1, ensure_ascii=False).encode())

    def read_bytes(self, name: str) -> bytes:
        """The content of a file of the run.

        Raises:
            UserError: if it is not there or cannot be read.
        """
        path = self.path / name
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise UserError(
                f"{self.path} is not a run directory of keras_attn (it has no {name}); "
                "train into it first."
            ) from error
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error

    def read_json(self, name: str):
        """The JSON in a file of the run.

        Raises:
            UserError: if it is not there, cannot be read or is not JSON.
        """
        content = self.read_bytes(name)
        try:
            return json.loads(content)
        except ValueError as error:
            raise UserError(f"{self.path / name} is not valid JSON: {error}.") from error


def _step_of_entry(line: bytes) -> float:
    """The step of a line of the history; of one that was not written to its end, the last."""
    try:
        return json.loads(line).get("step", 0)
    except (ValueError, AttributeError):
        return float("inf")


def _step_of_line(line: bytes) -> int:
    """The step of a line of the log that begins with it; 0 for every other."""
    found = re.match(rb"step (\d+)\b", line)
    return int(found[1]) if found else 0
