"""Everything a training run needs to go on, in one file."""

import os
from collections.abc import Mapping

import keras
import numpy as np

from keras_attn.errors import UserError
from keras_attn.training.array_file import BrokenArrayFileError, read_arrays, write_arrays
from keras_attn.training.supported import require_built
from keras_attn.training.weight_average import WeightAverage

Progress = Mapping[str, float | int | bool | str | np.ndarray]
_PROGRESS = "progress/"


class BrokenCheckpointError(UserError):
    """A file that is no checkpoint, or only part of one."""


def save_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    progress: Progress,
    average: WeightAverage | None = None,
    previous: str | os.PathLike | None = None,
) -> None:
    """Write weights, dropout seeds, the optimiser's state and the progress, whole or not at all.

    Every value comes back bit for bit, whatever its type.

    Args:
        path: the file, `.npz`, on a disk or on any file system of `tf.io.gfile`.
        model, optimizer: what is trained; an optimiser that has not been built is built for the
            model. Without one the checkpoint holds the model alone, to be used and not to be
            trained on.
        progress: numbers, text and arrays that say how far the run is, `{"step": 100}` for example.
        average: the moving average of the weights, if there is one.
        previous: where the file that stood at `path` goes, or None: it is replaced.

    Raises:
        UserError: if the disk is full or the place cannot be written.
        ValueError: if the model has not been built, or a value is neither number nor text.

    Example:
        >>> import keras
        >>> from keras_attn.training import load_checkpoint, save_checkpoint
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> save_checkpoint("saved.npz", model, keras.optimizers.Adam(), {"step": 100})
        >>> load_checkpoint("saved.npz", model)
        {'step': 100}
    """
    arrays = checkpoint_arrays(model, optimizer, progress, average)
    write_arrays(path, arrays, previous)


def checkpoint_arrays(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    progress: Progress,
    average: WeightAverage | None = None,
) -> dict[str, np.ndarray]:
    """Copies of all that a checkpoint holds, by name, for `write_arrays`: see `save_checkpoint`."""
    arrays = {f"{_PROGRESS}{name}": np.asarray(value) for name, value in progress.items()}
    for key, variables in variable_groups(model, optimizer, average).items():
        for index, variable in enumerate(variables):
            arrays[f"{key}/{index}"] = variable.value.numpy()
    return arrays


def load_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
    average: WeightAverage | None = None,
) -> dict[str, float | int | bool | str | np.ndarray]:
    """Set a model and its optimiser to a checkpoint; return its progress.

    Args:
        path: of the file.
        model: whose weights and seeds are set.
        optimizer: whose state is set too; one that has not been built is built for the model.
        average: the moving average that is set too.

    Raises:
        BrokenCheckpointError: if the file is not a whole checkpoint.
        UserError: if there is no file, it holds no optimiser or average for the one that is given,
            or it is of a model or an optimiser with other variables.
        ValueError: if the model has not been built.

    Example:
        >>> import keras
        >>> from keras_attn.training import load_checkpoint, save_checkpoint
        >>> model, optimizer = keras.Sequential([keras.Input((3,))]), keras.optimizers.Adam()
        >>> model.add(keras.layers.Dense(1))
        >>> save_checkpoint("loaded.npz", model, optimizer, {"step": 100})
        >>> load_checkpoint("loaded.npz", model, optimizer)
        {'step': 100}
    """
    arrays = _read(path)
    groups = variable_groups(model, optimizer, average)
    values = {key: _values(path, arrays, key) for key in groups}
    for key, variables in groups.items():
        _require_same(path, key, variables, values[key])
    for key, variables in groups.items():  # only when all of them fit
        for variable, value in zip(variables, values[key], strict=True):
            variable.assign(value)
    return _progress(arrays)


def read_progress(path: str | os.PathLike) -> dict[str, float | int | bool | str | np.ndarray]:
    """The progress that was saved with a checkpoint.

    Raises:
        BrokenCheckpointError: if the file is not a whole checkpoint.
        UserError: if there is no file.
    """
    return _progress(_read(path))


def variable_groups(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    average: WeightAverage | None = None,
) -> dict[str, list]:
    """All variables of a training run; an optimiser that has none yet is given them.

    Raises:
        ValueError: if the model has not been built.
    """
    require_built(model)
    if optimizer is not None and not optimizer.built:
        with model.distribute_strategy.scope():
            optimizer.build(model.trainable_variables)
    groups = {"model": model, "optimizer": optimizer, "average": average}
    return {key: part.variables for key, part in groups.items() if part is not None}


def _progress(arrays: Mapping[str, np.ndarray]) -> dict[str, float | int | bool | str | np.ndarray]:
    return {
        name.removeprefix(_PROGRESS): value if value.ndim else value.item()
        for name, value in arrays.items()
        if name.startswith(_PROGRESS)
    }


def _values(path, arrays: Mapping[str, np.ndarray], key: str) -> list[np.ndarray]:
    """What was stored of a group, in the order of its variables."""
    number = sum(name.startswith(f"{key}/") for name in arrays)
    try:
        return [arrays[f"{key}/{index}"] for index in range(number)]
    except KeyError as error:
        raise _broken(path, f"it has no {error}") from error


def _read(path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except FileNotFoundError as error:
        raise UserError(f"There is no checkpoint at {path}; train first.") from error
    except (BrokenArrayFileError, OSError) as error:
        raise _broken(path, str(error).rstrip(".")) from error


def _broken(path, why: str) -> BrokenCheckpointError:
    return BrokenCheckpointError(f"{path} is not a checkpoint of keras_attn: {why}.")


_HOW_TO_LOAD = {
    "model": "build the model with the settings that it was trained with",
    "optimizer": "make the optimizer of the class and the options that it was trained with",
    "average": "make the average of the model that was trained",
}
_WITHOUT = {
    "model": "it holds no model",
    "optimizer": "it holds the model alone, to be used and not to be trained on; load it without "
    "an optimizer",
    "average": "it was saved without a moving average; load it without one",
}


def _require_same(path, key, variables, values) -> None:
    """Raise `UserError` unless the values of a group are those of its variables."""
    if variables and not values:
        raise UserError(f"The checkpoint {path} has no {key} to load: {_WITHOUT[key]}.")
    if len(values) != len(variables):
        raise UserError(
            f"The checkpoint {path} is of another {key}: it holds {len(values)} variables, and the "
            f"{key} here has {len(variables)}; {_HOW_TO_LOAD[key]}."
        )
    for variable, value in zip(variables, values, strict=True):
        if value.shape != tuple(variable.shape):
            raise UserError(
                f"The checkpoint {path} is of another {key}: what is {variable.path} here, of "
                f"shape {tuple(variable.shape)}, has the shape {value.shape} there; "
                f"{_HOW_TO_LOAD[key]}."
            )
