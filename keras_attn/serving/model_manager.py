"""The models of a server and their loaded versions, kept up to date with the disk.

Every second the base paths are looked at, as TensorFlow Serving does. A new version is loaded
before the old one is let go; a request that runs on the old one keeps it alive until it is done.
"""

import logging
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.serving.errors import RequestError, bad_request, quote
from keras_attn.serving.model_config import ModelConfig, SpecificVersions
from keras_attn.serving.servable import MODEL_FILE, Servable

POLL_SECONDS = 1.0

_log = logging.getLogger("keras_attn.serving")
_VERSION_NAME = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class _Failure:
    """A version that could not be loaded, and the file stamp at that time."""

    message: str
    stamp: tuple


class ModelManager:
    """Loads the models of `configs` and follows new versions until `close`.

    Raises:
        UserError: if a model's directory is missing, holds no version that can be served, or a
            version cannot be loaded.
    """

    def __init__(self, configs: list[ModelConfig], poll_seconds: float = POLL_SECONDS):
        self._models = {config.name: _Model(config) for config in configs}
        for model in self._models.values():
            model.load_first()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._poll, args=(poll_seconds,), name="model-versions", daemon=True
        )
        self._thread.start()

    def servable(self, name: str, version: int | None = None, label: str | None = None) -> Servable:
        """The loaded version that a request names; the highest one if it names none.

        Raises:
            RequestError: status 404 for an unknown model or version, 400 for an unknown label.
        """
        model = self._models.get(name)
        if label is not None:
            version = self._labelled(name, label)
        loaded = model.loaded if model else {}
        if version is None and loaded:
            version = max(loaded)
        if version not in loaded:
            asked = "" if version is None else f" in version {version}"
            raise RequestError(404, f"No model {quote(name)}{asked} is served here.")
        return loaded[version]

    def status(self, name: str, version: int | None = None, label: str | None = None) -> dict:
        """The state of a model's versions, highest first, as TensorFlow Serving prints it.

        Raises:
            RequestError: status 404 for an unknown model or version, 400 for an unknown label.
        """
        if label is not None:
            version = self._labelled(name, label)
        model = self._models.get(name)
        states = model.states() if model else []
        if version is not None:
            states = [state for state in states if state["version"] == str(version)]
        if not states:
            asked = "" if version is None else f" in version {version}"
            raise RequestError(404, f"No model {quote(name)}{asked} is known here.")
        return {"model_version_status": states}

    def close(self) -> None:
        """Stop following the disk."""
        self._stopped.set()
        self._thread.join()

    def _labelled(self, name: str, label: str) -> int:
        model = self._models.get(name)
        labels = model.config.labels if model else {}
        if label not in labels:
            raise bad_request(f"The model {quote(name)} has no version label {quote(label)}.")
        return labels[label]

    def _poll(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            for model in self._models.values():
                try:
                    model.update()
                except Exception as error:  # the next look may succeed; what is loaded still serves
                    _log.warning("Versions of %s not checked: %s", model.config.name, error)


class _Model:
    """One model's loaded versions. Only one thread updates it; `loaded` is replaced as a whole."""

    def __init__(self, config: ModelConfig):
        self.config = config
        self.loaded: dict[int, Servable] = {}
        self._ended: set[int] = set()
        self._failures: dict[int, _Failure] = {}

    def load_first(self) -> None:
        """Load the versions to serve; nothing may fail."""
        for version in self._first_versions():
            self._try_load(version)
            if version in self._failures:
                raise UserError(
                    f"Version {version} of model {self.config.name!r} in "
                    f"{str(self.config.base_path)!r} cannot be loaded: "
                    f"{self._failures[version].message}"
                )

    def update(self) -> None:
        """Load new versions, then let go of those that are no longer to be served."""
        available = available_versions(self.config.base_path)
        wanted = self.config.versions.select(available)
        if not wanted:  # an emptied or unmounted directory: keep what serves
            return
        for version in set(self._failures) - set(available):
            del self._failures[version]
        for version in wanted:
            if version not in self.loaded and self._stamp(version) != self._failed_stamp(version):
                self._try_load(version)
        if all(version in self.loaded for version in wanted):
            self._unload(set(self.loaded) - set(wanted))

    def states(self) -> list[dict]:
        """Every version ever seen by this server, highest first."""
        loaded = self.loaded
        failures = dict(self._failures)
        states = [
            _state(version, "AVAILABLE" if version in loaded else "END", failures.get(version))
            for version in {*loaded, *self._ended, *failures}
        ]
        return sorted(states, key=lambda state: int(state["version"]), reverse=True)

    def _first_versions(self) -> list[int]:
        config = self.config
        if not config.base_path.is_dir():
            raise UserError(
                f"The directory of model {config.name!r} does not exist: {str(config.base_path)!r}."
            )
        available = available_versions(config.base_path)
        if not available:
            raise UserError(
                f"The directory of model {config.name!r} holds no version: "
                f"{str(config.base_path)!r} needs a SavedModel in a directory named by a number."
            )
        wanted = config.versions.select(available)
        if isinstance(config.versions, SpecificVersions):
            missing = sorted(set(config.versions.versions) - set(wanted))
            if missing:
                raise UserError(
                    f"Version {missing[0]} of model {config.name!r} does not exist in "
                    f"{str(config.base_path)!r}."
                )
        return wanted

    def _try_load(self, version: int) -> None:
        stamp = self._stamp(version)
        try:
            servable = Servable(version_directory(self.config.base_path, version))
        except Exception as error:  # a broken export must not end a server that works
            message = " ".join(str(error).split()) or type(error).__name__
            self._failures[version] = _Failure(message, stamp)
            _log.warning(
                "Version %d of model %s cannot be loaded: %s", version, self.config.name, message
            )
            return
        self._failures.pop(version, None)
        self._ended.discard(version)
        self.loaded = {**self.loaded, version: servable}
        _log.info("Version %d of model %s is served.", version, self.config.name)

    def _unload(self, versions: set[int]) -> None:
        if not versions:
            return
        self._ended |= versions
        self.loaded = {
            version: servable
            for version, servable in self.loaded.items()
            if version not in versions
        }

    def _stamp(self, version: int) -> tuple:
        """Changes when somebody writes the version again, or goes on writing it."""
        files = sorted(version_directory(self.config.base_path, version).rglob("*"))
        stats = [file.stat() for file in files if file.is_file()]
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _failed_stamp(self, version: int) -> tuple | None:
        failure = self._failures.get(version)
        return failure.stamp if failure else None


def available_versions(base_path: Path) -> list[int]:
    """The version numbers of a model's directory that hold a SavedModel, ascending.

    Only a directory whose name is a number counts. One without `saved_model.pb` is an export that
    has not finished.
    """
    return sorted(_version_directories(base_path))


def version_directory(base_path: Path, version: int) -> Path:
    """The directory of a version; its name may have leading zeros."""
    return _version_directories(base_path).get(version, base_path / str(version))


def _version_directories(base_path: Path) -> dict[int, Path]:
    try:
        children = sorted(base_path.iterdir())
    except OSError:
        return {}
    return {
        int(child.name): child
        for child in children
        if _VERSION_NAME.fullmatch(child.name) and (child / MODEL_FILE).is_file()
    }


def _state(version: int, state: str, failure: _Failure | None) -> dict:
    status = {"error_code": "OK", "error_message": ""}
    if failure:
        status = {"error_code": "UNKNOWN", "error_message": failure.message}
    return {"version": str(version), "state": state, "status": status}
