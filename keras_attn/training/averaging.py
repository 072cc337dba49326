"""The mean of the last checkpoints of a run."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath
from keras_attn.training.array_file import write_arrays
from keras_attn.training.budget import Pace
from keras_attn.training.checkpoint import (
    BrokenCheckpointError,
    checkpoint_arrays,
    load_checkpoint,
    read_progress,
    save_checkpoint,
)
from keras_attn.training.run_directory import RunDirectory


class KeepSnapshots(keras.callbacks.Callback):
    """Keeps the weights of the last `count` moments of a run, for their average.

    They are written by the run's `writer`, beside the training. It comes before `KeepCheckpoints`
    in the list, so that no checkpoint is there before the snapshots of the steps that it counts.

    Args:
        run: where they are kept.
        pace: knows the step and the share of the budget used.
        count: how many are kept.
        spacing: between two of them, a share of the budget.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     Budget, KeepSnapshots, Pace, RunDirectory, snapshots, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> run = RunDirectory("runs/snapshots")
        >>> pace = Pace(Budget(steps=4), learning_rate=lambda used, step: 0.01)
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(),
        ...     callbacks=[pace, KeepSnapshots(run, pace, count=2)],
        ... )
        4
        >>> [path.name for path in snapshots(run)]
        ['000000003.npz', '000000004.npz']
    """

    def __init__(self, run: RunDirectory, pace: Pace, count: int, spacing: float = 0.01):
        super().__init__()
        self._run = run
        self._pace = pace
        self._count = count
        self._spacing = spacing

    def on_train_begin(self, logs=None):
        self._due = self._next_due()
        for path in snapshots(self._run):
            if _step(path) > self._pace.step:  # of steps that a crash has lost
                path.unlink()

    def on_train_batch_end(self, batch, logs=None):
        if self._pace.used >= self._due:
            self._due = self._next_due()
            path = self._run.snapshots / f"{self._pace.step:09d}.npz"
            progress = {"step": self._pace.step, "seconds": self._pace.seconds}
            arrays = checkpoint_arrays(self.model, None, progress)
            self._run.writer.submit(lambda: self._write(path, arrays))

    def on_train_end(self, logs=None):
        self._run.writer.wait()

    def _write(self, path: Path | RemotePath, arrays: dict[str, np.ndarray]) -> None:
        write_arrays(path, arrays)
        for old in snapshots(self._run)[: -self._count]:
            old.unlink()

    def _next_due(self) -> float:
        return (int(self._pace.used / self._spacing + 1e-9) + 1) * self._spacing


def snapshots(run: RunDirectory) -> list[Path | RemotePath]:
    """The snapshots that a run keeps, the oldest first.

    Example:
        >>> from keras_attn.training import RunDirectory, snapshots
        >>> snapshots(RunDirectory("runs/new"))
        []
    """
    return sorted(run.snapshots.glob("[0-9]*.npz"))


def load_average(
    paths: Sequence[str | os.PathLike | RemotePath],
    model: keras.Model,
    report: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Set a model's weights to their means over checkpoints; return the progress of the last.

    Means are taken in float64, with one checkpoint in memory at a time. What is no weight, such as
    the state of a dropout's seed, and weights that are whole numbers are those of the last.

    Args:
        paths: of checkpoints of the model, one at least.
        report: called with a line for every damaged checkpoint, which is left out; without it a
            damaged checkpoint is an error.

    Returns:
        The progress of the last checkpoint, and under `averaged` how many were.

    Raises:
        ValueError: if there is no checkpoint.
        UserError: if one cannot be read or was made by a model of other shapes, or all of them are
            damaged.

    Example:
        >>> import keras
        >>> import numpy as np
        >>> from keras_attn.training import load_average, save_checkpoint
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
        >>> for number in (1, 3):
        ...     model.set_weights([np.array([[number]])])
        ...     save_checkpoint(f"step-{number}.npz", model, None, {"step": number})
        >>> load_average(["step-1.npz", "step-3.npz"], model)
        {'step': 3, 'averaged': 2}
        >>> float(model.get_weights()[0][0, 0])
        2.0

    Reference:
        Vaswani et al. 2017, section 6.1: the last 5 checkpoints of the base model, 20 of the big.
    """
    if not paths:
        raise ValueError("There is no checkpoint to average. Received: paths=[]")
    sums, count, progress = [0.0] * len(model.weights), 0, {}
    for path in paths:
        try:
            progress = load_checkpoint(path, model)
        except BrokenCheckpointError as error:
            if report is None or (path == paths[-1] and not count):
                raise
            report(f"{error} The average is taken without it.")
            continue
        count += 1
        values = (variable.numpy() for variable in model.weights)
        sums = [total + _wide(value) for total, value in zip(sums, values, strict=True)]
    for variable, total in zip(model.weights, sums, strict=True):
        value = variable.numpy()
        if not np.issubdtype(value.dtype, np.integer) and value.dtype != bool:
            variable.assign((total / count).astype(value.dtype))
    return {**progress, "averaged": count}


def average_is_due(run: RunDirectory) -> bool:
    """Whether the snapshots of a run that has ended are not averaged yet."""
    paths = snapshots(run)
    if len(paths) < 2:
        return False
    try:
        averaged = read_progress(run.average_checkpoint)
    except UserError:  # it is not there, or damaged
        return True
    return averaged.get("newest", averaged["step"]) != _step(paths[-1])


def save_average(run: RunDirectory, model: keras.Model, progress: dict, score: float) -> None:
    """Keep the average of a run's snapshots: `progress` of `load_average`, `score` of the model."""
    newest = _step(snapshots(run)[-1])
    progress = {**progress, "best": score, "newest": newest}
    save_checkpoint(run.average_checkpoint, model, None, progress)


def _wide(value: np.ndarray) -> np.ndarray:
    """The value in 64 bits, or twice as many for a complex one."""
    return value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)


def _step(path: Path | RemotePath) -> int:
    return int(path.stem)
