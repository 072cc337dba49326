"""Whether the checkpoints of a run will have room, asked before it trains."""

import shutil
from pathlib import Path

import keras

from keras_attn.errors import UserError
from keras_attn.training.checkpoint import variable_groups
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.weight_average import WeightAverage

_MB = 1e6
_BYTES_BESIDE_AN_ARRAY = 512  # its header, and its line in the table of the file


def require_disk_space(
    run: RunDirectory,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    average: WeightAverage | None = None,
    snapshots: int = 0,
) -> None:
    """Raise `UserError` unless there is room for all files that a run will have at once.

    These are the last checkpoint, the one before, the best one and one that is being written, and
    for an average of `snapshots` so many of the weights alone, and their mean. What the run wrote
    before is counted as room, for it will be replaced. What other file systems than the disks of
    this machine have left is not asked.

    Args:
        run: where they will be.
        model, optimizer, average: what is saved.
        snapshots: how many `KeepSnapshots` keeps.
    """
    if not isinstance(run.path, Path):
        return
    sizes = {
        key: sum(_size(variable) for variable in variables)
        for key, variables in variable_groups(model, optimizer, average).items()
    }
    needed = 4 * sum(sizes.values()) + (snapshots + bool(snapshots)) * sizes["model"]
    free = shutil.disk_usage(run.path).free + sum(path.stat().st_size for path in run.checkpoints)
    if needed > free:
        raise UserError(
            f"The checkpoints of this run will take {needed / _MB:,.1f} MB, and {run.path} has "
            f"{free / _MB:,.1f} MB free for them: make room, or choose another directory."
        )


def _size(variable) -> int:
    """Bytes of a variable in a checkpoint."""
    value = variable.value
    return value.dtype.size * value.shape.num_elements() + _BYTES_BESIDE_AN_ARRAY
