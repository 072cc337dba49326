"""Which models a server serves: TensorFlow Serving's model configuration as plain dataclasses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keras_attn.errors import UserError

MODELS_ROOT = "/models"  # where TensorFlow Serving's container has its models


@dataclass(frozen=True)
class LatestVersions:
    """Serve the `count` highest version numbers.

    Example:
        >>> from keras_attn.serving import LatestVersions
        >>> LatestVersions(2).select([2, 1, 3])
        [2, 3]
    """

    count: int = 1

    def select(self, available: list[int]) -> list[int]:
        return sorted(available)[-self.count :]


@dataclass(frozen=True)
class AllVersions:
    """Serve every version of the directory.

    Example:
        >>> from keras_attn.serving import AllVersions
        >>> AllVersions().select([2, 1, 3])
        [1, 2, 3]
    """

    def select(self, available: list[int]) -> list[int]:
        return sorted(available)


@dataclass(frozen=True)
class SpecificVersions:
    """Serve exactly these version numbers: `versions`, as far as they are there.

    Example:
        >>> from keras_attn.serving import SpecificVersions
        >>> SpecificVersions((1, 7)).select([2, 1, 3])
        [1]
    """

    versions: tuple[int, ...]

    def select(self, available: list[int]) -> list[int]:
        return sorted(set(self.versions) & set(available))


VersionPolicy = LatestVersions | AllVersions | SpecificVersions


@dataclass(frozen=True)
class ModelConfig:
    """One model: its name in the URL and the directory that holds its numbered versions.

    Args:
        name: in the URL.
        base_path: the directory of the versions.
        versions: which of them are served.
        labels: numbers of versions by the names that requests may use for them.

    Example:
        >>> from pathlib import Path
        >>> from keras_attn.serving import ModelConfig
        >>> ModelConfig("dates", Path("models/dates")).versions
        LatestVersions(count=1)
    """

    name: str
    base_path: Path
    versions: VersionPolicy = LatestVersions()
    labels: Mapping[str, int] = field(default_factory=dict)


def models_from_flags(
    *,
    model_config_file: str | Path | None = None,
    model_name: str | None = None,
    model_base_path: str | Path | None = None,
    models_root: str | Path | None = None,
    allow_version_labels: bool = False,
) -> list[ModelConfig]:
    """The models that TensorFlow Serving's command-line flags name.

    Args:
        model_config_file: A `ModelServerConfig` in protobuf's text form. Excludes the next two.
        model_name: The model's name; `default` if not given, as in TensorFlow Serving.
        model_base_path: The model's directory.
        models_root: The directory that stands in for `/models` at the start of a base path.
        allow_version_labels: `--allow_version_labels_for_unavailable_models`. TensorFlow Serving
            refuses labels in the configuration it starts with unless this is set, and so do we.

    Raises:
        UserError: if the flags contradict each other or the configuration is not valid.

    Example:
        >>> from keras_attn.serving import models_from_flags
        >>> models_from_flags(model_name="dates", model_base_path="/models/dates")[0].name
        'dates'
    """
    if model_config_file and (model_name or model_base_path):
        raise UserError(
            "--model_config_file cannot be combined with --model_name or --model_base_path: write "
            "all models into the file, or name one model by flags."
        )
    if model_config_file:
        return read_model_config_file(
            model_config_file, models_root=models_root, allow_version_labels=allow_version_labels
        )
    if not model_base_path:
        raise UserError(
            "No model was named: give --model_config_file, or --model_name and --model_base_path."
        )
    path = _under_models_root(str(model_base_path), models_root)
    return [ModelConfig(name=model_name or "default", base_path=path.absolute())]


def read_model_config_file(
    path: str | Path,
    *,
    models_root: str | Path | None = None,
    allow_version_labels: bool = False,
) -> list[ModelConfig]:
    """The models of a `ModelServerConfig` file in protobuf's text form.

    Args:
        path: of the file.
        models_root, allow_version_labels: see `models_from_flags`.

    Raises:
        UserError: naming the file, if it cannot be read or is not a valid configuration.

    Example:
        >>> from pathlib import Path
        >>> from keras_attn.serving import read_model_config_file
        >>> text = '''model_config_list { config {
        ...     name: "dates" base_path: "/models/dates" model_platform: "tensorflow"
        ... } }'''
        >>> _ = Path("models.config").write_text(text)
        >>> [model.name for model in read_model_config_file("models.config")]
        ['dates']
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"The model configuration {str(path)!r} cannot be read: {error.strerror}."
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"The model configuration {str(path)!r} is not text in UTF-8.") from None
    try:
        return parse_model_config(
            text, models_root=models_root, allow_version_labels=allow_version_labels
        )
    except UserError as error:
        raise UserError(f"In the model configuration {str(path)!r}: {error}") from None


def parse_model_config(
    text: str,
    *,
    models_root: str | Path | None = None,
    allow_version_labels: bool = False,
) -> list[ModelConfig]:
    """The models of a `ModelServerConfig` in protobuf's text form.

    Args:
        text: the configuration.
        models_root, allow_version_labels: see `models_from_flags`.

    Raises:
        UserError: one sentence that names the problem.

    Example:
        >>> from keras_attn.serving import parse_model_config
        >>> text = '''model_config_list { config {
        ...     name: "dates" base_path: "/models/dates" model_platform: "tensorflow"
        ... } }'''
        >>> [model.name for model in parse_model_config(text)]
        ['dates']
    """
    entries = _parse_message(text).model_config_list.config
    models = [_model(entry, models_root, allow_version_labels) for entry in entries]
    if not models:
        raise UserError("no model is listed: write model_config_list { config { ... } }.")
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two models are named {name!r}; give every model a name of its own.")
    return models


def _parse_message(text: str):
    try:
        from google.protobuf import text_format
        from tensorflow_serving.config import model_server_config_pb2
    except ImportError:
        raise UserError(
            "a model configuration needs the package tensorflow-serving-api, which is not "
            'installed: pip install "keras-attn[demo]".'
        ) from None
    message = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        line = error.GetLine()
        place = f"line {line}: " if line else ""
        reason = re.sub(r"^\d+:\d+ : ", "", str(error)).strip().rstrip(".")
        raise UserError(
            f"{place}not a ModelServerConfig in protobuf's text form: {reason}."
        ) from None
    if message.WhichOneof("config") == "custom_model_config":
        raise UserError("custom_model_config is not supported; write model_config_list.")
    return message


def _model(entry, models_root: str | Path | None, allow_version_labels: bool) -> ModelConfig:
    if not entry.name:
        raise UserError('a model has no name; write name: "..." in every config.')
    if entry.model_platform != "tensorflow":
        raise UserError(
            f'model {entry.name!r} must have model_platform: "tensorflow". '
            f"Received: {entry.model_platform!r}."
        )
    if not entry.base_path.startswith("/"):
        raise UserError(
            f"model {entry.name!r} must have an absolute base_path of this machine. "
            f"Received: {entry.base_path!r}."
        )
    if entry.version_labels and not allow_version_labels:
        raise UserError(
            f"model {entry.name!r} has version_labels, which are refused at the start unless "
            "--allow_version_labels_for_unavailable_models is given."
        )
    return ModelConfig(
        name=entry.name,
        base_path=_under_models_root(entry.base_path, models_root).absolute(),
        versions=_version_policy(entry),
        labels=dict(entry.version_labels),
    )


def _version_policy(entry) -> VersionPolicy:
    policy = entry.model_version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return AllVersions()
    if choice == "specific":
        if not policy.specific.versions:
            raise UserError(f"model {entry.name!r} has a specific version policy without versions.")
        return SpecificVersions(tuple(sorted(set(policy.specific.versions))))
    # TensorFlow Serving reads a count of zero as one.
    return LatestVersions(max(policy.latest.num_versions, 1))


def _under_models_root(base_path: str, models_root: str | Path | None) -> Path:
    path = Path(base_path)
    if models_root is None or not path.is_relative_to(MODELS_ROOT):
        return path
    return Path(models_root) / path.relative_to(MODELS_ROOT)
