"""A corpus that is named by its files."""

from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of

Place = Path | RemotePath

_OPTIONS = {
    "source": "--source",
    "target": "--target",
    "validation_source": "--validation-source",
    "validation_target": "--validation-target",
}


class FileCorpus:
    """Two aligned files to learn from and two to validate with.

    Args:
        source, target: of the training text, on any file system of `tf.io.gfile`.
        validation_source, validation_target: of the validation text.

    Raises:
        UserError: if one of the four is not given.
    """

    def __init__(
        self,
        source: str | None = None,
        target: str | None = None,
        validation_source: str | None = None,
        validation_target: str | None = None,
    ):
        given = {
            "source": source,
            "target": target,
            "validation_source": validation_source,
            "validation_target": validation_target,
        }
        missing = [_OPTIONS[name] for name, path in given.items() if path is None]
        if missing:
            raise UserError(f"This recipe needs files of its own; give {', '.join(missing)}.")
        self._paths = {name: path_of(path).absolute() for name, path in given.items()}

    @property
    def settings(self) -> dict[str, str]:
        """The four files by their absolute paths."""
        return {name: str(path) for name, path in self._paths.items()}

    def training(self) -> tuple[Place, Place]:
        return self._paths["source"], self._paths["target"]

    def validation(self) -> tuple[Place, Place]:
        return self._paths["validation_source"], self._paths["validation_target"]

    def tests(self) -> dict[str, tuple[Place, Place]]:
        return {"validation": self.validation()}
