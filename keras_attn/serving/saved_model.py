"""A trained model as the next version of a SavedModel that TensorFlow Serving loads."""

import os
import shutil
import tempfile
from pathlib import Path

import keras
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.protocols import Exportable, SupportsWarmup
from keras_attn.serving.warmup import write_warmup_requests


def export(model: keras.Model | Exportable, directory: str | os.PathLike) -> Path:
    """Write the next version of a SavedModel below `directory` and return its path.

    The version is one more than the largest number there, so nothing is ever overwritten. It is
    written under a name that TensorFlow Serving ignores and renamed when it is whole: no reader
    sees half a version, and an interrupted export leaves none. Weights are stored once.

    Args:
        model: a `keras.Model` (one signature `serving_default`, from its inputs to its outputs), or
            a `keras_attn.protocols.Exportable` such as `keras_attn.serving.TextModel`. The requests
            of one that `SupportsWarmup` are kept beside the model for TensorFlow Serving.
        directory: the model's base path, `models/dates` for example; made if need be.

    Raises:
        UserError: if the directory cannot be written.

    Example:
        >>> export(text_model, "models/dates")
        PosixPath('models/dates/1')
    """
    directory = Path(directory)
    exportable = _KerasModel(model) if isinstance(model, keras.Model) else model
    module = tf.Module()
    module.resources = exportable.resources
    signatures = exportable.signatures()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=directory))
    except OSError as error:
        raise UserError(f"Cannot write a model below {directory}: {error.strerror}.") from error
    try:
        version = unfinished / "version"
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
        tf.saved_model.save(module, str(version), signatures=signatures, options=options)
        if isinstance(exportable, SupportsWarmup):
            write_warmup_requests(version, exportable.warmup_requests())
        return _publish(version, directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def versions(directory: str | os.PathLike) -> list[int]:
    """The version numbers below a model's base path, smallest first."""
    directory = Path(directory)
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def _publish(version: Path, directory: Path) -> Path:
    """Rename a whole version to the next free number, also when others publish meanwhile."""
    while True:
        target = directory / str(max(versions(directory), default=0) + 1)
        try:
            return version.rename(target)
        except OSError:
            if not target.exists():
                raise


class _KerasModel:
    """The one signature of a plain functional model."""

    def __init__(self, model: keras.Model):
        self._model = model

    @property
    def resources(self) -> list[tf.Variable]:
        return [variable.value for variable in self._model.variables]

    def signatures(self) -> dict:
        specs = {
            tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
            for tensor in self._model.inputs
        }
        names = list(specs)

        @tf.function(input_signature=list(specs.values()))
        def serve(*tensors):
            outputs = self._model(self._arrange(dict(zip(names, tensors, strict=True))))
            return {
                name: _as_served(tensor)
                for name, tensor in zip(self._output_names(), tf.nest.flatten(outputs), strict=True)
            }

        return {"serving_default": serve}

    def _arrange(self, tensors: dict):
        """The tensors in the structure in which the model was given its inputs."""
        structure = self._model.input
        return tf.nest.map_structure(lambda tensor: tensors[tensor.name], structure)

    def _output_names(self) -> list[str]:
        outputs = self._model.output
        if isinstance(outputs, dict):
            return sorted(outputs)
        return [f"output_{index}" for index in range(len(tf.nest.flatten(outputs)))]


def _as_served(tensor: tf.Tensor) -> tf.Tensor:
    """float16 and bfloat16 cannot be written as JSON by TensorFlow Serving."""
    return tf.cast(tensor, tf.float32) if tensor.dtype in (tf.float16, tf.bfloat16) else tensor
