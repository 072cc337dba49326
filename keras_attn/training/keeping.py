"""Checkpoints and validation while a run goes on."""

import time
from collections.abc import Callable

import keras

from keras_attn.training.budget import Pace
from keras_attn.training.checkpoint import save_checkpoint
from keras_attn.training.run_directory import RunDirectory


class KeepCheckpoints(keras.callbacks.Callback):
    """Keeps the last checkpoint and the best one of a run.

    Args:
        run: where they are kept.
        pace: knows the step, the time and the share of the budget used.
        validate: returns metrics; the first, higher is better, decides which checkpoint is best.
        validations: how often a whole budget is validated, the last time at its end.
        best: the best value of the sessions before.
        stale: how many validations of the sessions before have passed since then.
        patience: training ends after so many validations without a better one; None for never.
        report: called with a line to show.
        every_seconds: the longest time between two checkpoints.
    """

    def __init__(
        self,
        run: RunDirectory,
        pace: Pace,
        validate: Callable[[], dict[str, float]],
        validations: int,
        best: float = float("-inf"),
        stale: int = 0,
        patience: int | None = None,
        report: Callable[[str], None] = print,
        every_seconds: float = 60.0,
    ):
        super().__init__()
        self._run = run
        self._pace = pace
        self._validate = validate
        self._validations = validations
        self._best = best
        self._stale = stale
        self._patience = patience
        self._report = report
        self._every_seconds = every_seconds

    def on_train_begin(self, logs=None):
        self._saved = time.monotonic()
        self._due = self._next_due()

    def on_train_batch_end(self, batch, logs=None):
        if self._pace.used >= self._due:
            self._due = self._next_due()
            self._validate_and_keep()
        elif time.monotonic() - self._saved > self._every_seconds:
            self._save_last()

    def on_train_end(self, logs=None):
        self._save_last()

    def _next_due(self) -> float:
        return (int(self._pace.used * self._validations + 1e-9) + 1) / self._validations

    def _validate_and_keep(self):
        metrics = self._validate()
        line = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        self._report(f"step {self._pace.step}: {line}")
        score = next(iter(metrics.values()))
        self._stale += 1
        if score > self._best:
            self._best, self._stale = score, 0
            self._save(self._run.best_checkpoint)
        self._save_last()
        if self._patience is not None and self._stale >= self._patience:
            self._report(f"stopped: no better than {self._best:.4f} for {self._stale} validations")
            self.model.stop_training = True

    def _save_last(self):
        self._save(self._run.last_checkpoint)
        self._saved = time.monotonic()

    def _save(self, path):
        progress = {
            "step": self._pace.step,
            "seconds": self._pace.seconds,
            "best": self._best,
            "stale": self._stale,
        }
        save_checkpoint(path, self.model, self.model.optimizer, progress)
