"""The mean of the last checkpoints of a run."""

import os
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from keras_attn.training.budget import Pace
from keras_attn.training.checkpoint import load_checkpoint, save_checkpoint
from keras_attn.training.run_directory import RunDirectory


class KeepSnapshots(keras.callbacks.Callback):
    """Keeps the weights of the last `count` moments of a run, for their average.

    Args:
        run: where they are kept.
        pace: knows the step and the share of the budget used.
        count: how many are kept.
        spacing: between two of them, a share of the budget.
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
            path = self._run.path / "snapshots" / f"{self._pace.step:09d}.npz"
            progress = {"step": self._pace.step, "seconds": self._pace.seconds}
            save_checkpoint(path, self.model, None, progress)
            for old in snapshots(self._run)[: -self._count]:
                old.unlink()

    def _next_due(self) -> float:
        return (int(self._pace.used / self._spacing + 1e-9) + 1) * self._spacing


def snapshots(run: RunDirectory) -> list[Path]:
    """The snapshots that a run keeps, the oldest first."""
    return sorted((run.path / "snapshots").glob("[0-9]*.npz"))


def load_average(paths: Sequence[str | os.PathLike], model: keras.Model) -> dict[str, float]:
    """Set a model's weights to their means over checkpoints; return the progress of the last.

    Means are taken in float64, with one checkpoint in memory at a time. What is no weight, such as
    the state of a dropout's seed, is that of the last.

    Args:
        paths: of checkpoints of the model, one at least.

    Raises:
        ValueError: if there is no checkpoint.
        UserError: if one cannot be read or was made by a model of other shapes.

    Reference:
        Vaswani et al. 2017, section 6.1: the last 5 checkpoints of the base model, 20 of the big.
    """
    if not paths:
        raise ValueError("There is no checkpoint to average. Received: paths=[]")
    sums = [0.0] * len(model.weights)
    for path in paths:
        progress = load_checkpoint(path, model)
        values = (variable.numpy().astype(np.float64) for variable in model.weights)
        sums = [total + value for total, value in zip(sums, values, strict=True)]
    for variable, total in zip(model.weights, sums, strict=True):
        variable.assign(total / len(paths))
    return progress


def _step(path: Path) -> int:
    return int(path.stem)
