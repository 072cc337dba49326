"""Going on where a run stopped, all workers from the same step."""

import io
from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_attn.training.agreement import form_of
from keras_attn.training.checkpoint import (
    BrokenCheckpointError,
    load_checkpoint,
    variable_groups,
)
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.weight_average import WeightAverage
from keras_attn.training.workers import Workers

_PART = 1 << 20  # bytes that are sent at once


def resume(
    run: RunDirectory,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    *,
    average: WeightAverage | None = None,
    workers: Workers | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, float | int | bool | str | np.ndarray]:
    """Set a model, its optimiser and its average to the last whole checkpoint of a run.

    The chief reads it and sends it to the other workers, who need no disk in common with it and
    cannot start from another step. If the newest file is damaged, the one before is taken. Without
    a checkpoint all start from the chief's initial values. What the history and the log tell of
    later steps goes, for these steps are done again.

    Args:
        run: of the chief; the others' are not looked at.
        model, optimizer: what is trained; an optimiser that has not been built is built for the
            model.
        average: the moving average of the weights, if there is one.
        workers: that train together; without them this process is alone.
        report: called with a line if a damaged checkpoint is passed over.

    Returns:
        The progress that was saved; empty if there was no checkpoint.

    Raises:
        UserError: if there are checkpoints and none of them is whole, or they are of another model
            or optimiser; if the workers' variables differ.
        ValueError: if the model has not been built.

    Example:
        >>> import keras
        >>> from keras_attn.training import RunDirectory, resume, save_checkpoint
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> run, optimizer = RunDirectory("runs/mine"), keras.optimizers.Adam()
        >>> resume(run, model, optimizer)
        {}
        >>> save_checkpoint(run.last_checkpoint, model, optimizer, {"step": 100})
        >>> resume(run, model, optimizer)  # fit(..., initial_step=100) goes on from there
        {'step': 100}
    """
    progress = {}
    if workers is None or workers.is_chief:
        progress = _load(run, model, optimizer, average, report)
    if workers is None or workers.number == 1:
        return progress
    variables = [
        variable
        for group in variable_groups(model, optimizer, average).values()
        for variable in group
    ]
    workers.require_same(
        "variables",
        {
            "number of variables": len(variables),
            **{f"variable {index}": form_of(variable) for index, variable in enumerate(variables)},
        },
    )
    mine = [variable.numpy() for variable in variables]
    content = _bytes_of_chief(b"".join(value.tobytes() for value in mine), workers)
    start = 0
    for variable, value in zip(variables, mine, strict=True):
        values = np.frombuffer(content, value.dtype, value.size, start)
        variable.assign(values.reshape(value.shape))
        start += value.nbytes
    return _progress_of_chief(progress, workers)


def _load(run, model, optimizer, average, report) -> dict:
    run.sweep()
    paths = [path for path in (run.last_checkpoint, run.previous_checkpoint) if path.exists()]
    for path in paths:
        try:
            progress = load_checkpoint(path, model, optimizer, average)
        except BrokenCheckpointError as error:
            if path == paths[-1]:
                raise
            report(f"{error} Going on from {paths[-1]}, the checkpoint before.")
        else:
            if "step" in progress:
                run.rewind(int(progress["step"]))
            return progress
    run.rewind(0)
    return {}


def _progress_of_chief(progress: Mapping, workers: Workers) -> dict:
    file = io.BytesIO()
    np.savez(file, **progress)
    mine = file.getvalue()
    size = int.from_bytes(_bytes_of_chief(len(mine).to_bytes(8, "little"), workers), "little")
    content = _bytes_of_chief(mine.ljust(size, b"\0")[:size], workers)
    with np.load(io.BytesIO(content)) as stored:
        return {name: value if value.ndim else value.item() for name, value in stored.items()}


def _bytes_of_chief(content: bytes, workers: Workers) -> bytes:
    """So many bytes of the chief, in every process, whatever numbers they are of.

    Sent as whole numbers, because what is sent is added to zeros: that loses the sign of a zero,
    and there are types that cannot be added. All parts have one size, for which TensorFlow traces
    once.
    """
    received = []
    for start in range(0, len(content), _PART):
        part = content[start : start + _PART]
        words = np.frombuffer(part.ljust(_PART, b"\0"), np.int32)
        received.append(workers.of_chief([words])[0].tobytes()[: len(part)])
    return b"".join(received)
