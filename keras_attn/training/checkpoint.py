"""Everything a training run needs to go on, in one file."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

from keras_attn.errors import UserError
from keras_attn.training.files import written_whole


def save_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    progress: Mapping[str, float],
) -> None:
    """Write weights, dropout seeds, the optimiser's state and the progress, whole or not at all.

    Args:
        path: the file, `.npz`.
        model, optimizer: what is trained; the optimiser has been built. Without one the checkpoint
            holds the model alone, to be used and not to be trained on.
        progress: numbers that say how far the run is, `{"step": 100}` for example.

    Raises:
        UserError: if the disk is full or the place cannot be written.
    """
    arrays = {f"progress/{name}": np.float64(value) for name, value in progress.items()}
    for key, variables in _groups(model, optimizer).items():
        for index, variable in enumerate(variables):
            arrays[f"{key}/{index}"] = variable.value.numpy()
    with written_whole(path) as file:
        np.savez(file, **arrays)


def load_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> dict[str, float]:
    """Set a model (and an optimiser that has been built) to a checkpoint; return its progress.

    Raises:
        UserError: if the file cannot be read or was made by a model of other shapes.
    """
    arrays = _read(path)
    for key, variables in _groups(model, optimizer).items():
        values = [arrays.get(f"{key}/{index}") for index in range(len(variables))]
        _check(path, key, variables, values, arrays)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
    prefix = "progress/"
    return {
        name.removeprefix(prefix): float(value)
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _groups(model, optimizer) -> dict[str, list]:
    groups = {"model": model.variables}
    if optimizer is not None:
        groups["optimizer"] = optimizer.variables
    return groups


def _read(path) -> dict[str, np.ndarray]:
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError as error:
        raise UserError(f"There is no checkpoint at {path}; train first.") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is not a checkpoint of keras_attn: {error}.") from error


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
