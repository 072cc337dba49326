"""A training run on disk: its settings, what its recipe prepared, and its checkpoints."""

import json
import math
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.files import written_whole

_SECONDS_UNWRITTEN = 5.0


class RunDirectory:
    """The directory of one training run.

    `settings.json` names the recipe and its settings, written when the run begins; a run directory
    never changes its recipe or settings.

    Args:
        path: the directory.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.last_checkpoint = self.path / "last.npz"
        self.previous_checkpoint = self.path / "previous.npz"
        self.best_checkpoint = self.path / "best.npz"
        self.average_checkpoint = self.path / "average.npz"
        self.history = self.path / "history.jsonl"
        self._unwritten: list[str] = []
        self._written = time.monotonic()

    @property
    def exists(self) -> bool:
        return (self.path / "settings.json").is_file()

    def begin(self, recipe: str, settings: dict) -> None:
        """Claim the directory for a recipe and its settings, or check that it is theirs.

        Raises:
            UserError: if the directory belongs to another recipe or to other settings.
        """
        wanted = {"recipe": recipe, "settings": settings}
        if not self.exists:
            self.write_json("settings.json", wanted)
            return
        found = self.description()
        if found["recipe"] != recipe:
            raise UserError(
                f"{self.path} is a run of the recipe {found['recipe']!r}, not of {recipe!r}; "
                "choose another directory."
            )
        if found["settings"] != json.loads(json.dumps(settings)):
            names = sorted(set(found["settings"]) | set(settings))
            differing = [
                f"{name} {found['settings'].get(name)!r} there, {settings.get(name)!r} now"
                for name in names
                if found["settings"].get(name) != settings.get(name)
            ]
            raise UserError(
                f"{self.path} is a run of other settings ({'; '.join(differing)}); "
                "choose another directory."
            )

    def forget(self, names: Iterable[str]) -> None:
        """Give the directory back: its settings, its log and the files of these names go."""
        for name in ("settings.json", "log.txt", *names):
            (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what processes that were killed while they wrote a checkpoint left behind."""
        for unfinished in self.path.glob(".*.npz-*"):
            unfinished.unlink(missing_ok=True)

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
