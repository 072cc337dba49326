"""Everything a training run needs to go on, in one file."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

from keras_attn.errors import UserError
from keras_attn.training.files import written_whole
from keras_attn.training.weight_average import WeightAverage


class BrokenCheckpointError(UserError):
    """A file that is no checkpoint, or only part of one."""


def save_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    progress: Mapping[str, float | np.ndarray],
    average: WeightAverage | None = None,
    previous: str | os.PathLike | None = None,
) -> None:
    """Write weights, dropout seeds, the optimiser's state and the progress, whole or not at all.

    Args:
        path: the file, `.npz`.
        model, optimizer: what is trained; the optimiser has been built. Without one the checkpoint
            holds the model alone, to be used and not to be trained on.
        progress: numbers that say how far the run is, `{"step": 100}` for example.
        average: the moving average of the weights, if there is one.
        previous: where the file that stood at `path` goes, or None: it is replaced.

    Raises:
        UserError: if the disk is full or the place cannot be written.
    """
    arrays = {f"progress/{name}": np.float64(value) for name, value in progress.items()}
    for key, variables in variable_groups(model, optimizer, average).items():
        for index, variable in enumerate(variables):
            arrays[f"{key}/{index}"] = variable.value.numpy()
    with written_whole(path, previous) as file:
        np.savez(file, **arrays)


def load_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
    average: WeightAverage | None = None,
) -> dict[str, float | np.ndarray]:
    """Set a model (and an optimiser that has been built) to a checkpoint; return its progress.

    Raises:
        BrokenCheckpointError: if the file is not a whole checkpoint.
        UserError: if there is no file or it was made by a model of other shapes.
    """
    arrays = _read(path)
    for key, variables in variable_groups(model, optimizer, average).items():
        values = [arrays.get(f"{key}/{index}") for index in range(len(variables))]
        _check(path, key, variables, values, arrays)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
    prefix = "progress/"
    return {
        name.removeprefix(prefix): value if value.ndim else float(value)
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def variable_groups(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    average: WeightAverage | None = None,
) -> dict[str, list]:
    """All variables of a training run."""
    groups = {"model": model, "optimizer": optimizer, "average": average}
    return {key: part.variables for key, part in groups.items() if part is not None}


def _read(path) -> dict[str, np.ndarray]:
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError as error:
        raise UserError(f"There is no checkpoint at {path}; train first.") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BrokenCheckpointError(
            f"{path} is not a checkpoint of keras_attn: {str(error).rstrip('.')}."
        ) from error


def _check(path, key, variables, values, arrays) -> None:
    stored = sum(name.startswith(f"{key}/") for name in arrays)
    fits = stored == len(variables) and all(
        value.shape == tuple(variable.shape)
        for variable, value in zip(variables, values, strict=True)
    )
    if not fits:
        raise UserError(
            f"The checkpoint {path} is of another {key}: it holds {stored} arrays, and the "
            f"{len(variables)} needed here have other shapes or another number."
        )
