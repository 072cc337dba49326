"""Checkpoints and validation while a run goes on."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext

import keras

from keras_attn.training.budget import Pace
from keras_attn.training.checkpoint import save_checkpoint
from keras_attn.training.epochs import Epochs
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.validation_schedule import ValidationSchedule
from keras_attn.training.weight_average import WeightAverage


class KeepCheckpoints(keras.callbacks.Callback):
    """Keeps the last two checkpoints and the best one of a run.

    Of several workers the chief alone has this callback; it is the last in the list.

    Args:
        run: where they are kept.
        pace: knows the step, the time and the share of the budget used.
        validate: returns metrics; the first, higher is better, decides which checkpoint is best.
        validations: how often a whole budget is validated, the last time at its end, or a
            `ValidationSchedule`.
        best: the best value of the sessions before.
        stale: how many validations of the sessions before have passed since then.
        patience: training ends after so many validations without a better one; None for never.
        report: called with a line to show.
        every_seconds: the longest time between two checkpoints.
        every_steps: the most steps between two checkpoints, or None for no limit.
        average: the moving average of the weights, if there is one: validation and the best
            checkpoint have its weights, the last checkpoint keeps it beside the model's own.
        epochs: if there are any; they are told of everything by this callback, because a checkpoint
            must hold what they found at its step, but not what they do to the weights at the end.
        warm_up: called before the first validation of a session, for what is compiled then; its
            time does not count as that of a validation.
        data: the batches, if they are `data.seekable.SeekableBatches`: their place is saved too.

    Attributes:
        saved_step: of the last checkpoint.
    """

    def __init__(
        self,
        run: RunDirectory,
        pace: Pace,
        validate: Callable[[], dict[str, float]],
        validations: int | ValidationSchedule,
        best: float = float("-inf"),
        stale: int = 0,
        patience: int | None = None,
        report: Callable[[str], None] = print,
        every_seconds: float = 60.0,
        every_steps: int | None = None,
        average: WeightAverage | None = None,
        epochs: Epochs | None = None,
        warm_up: Callable[[], object] = lambda: None,
        data=None,
    ):
        super().__init__()
        self.saved_step = 0
        self._run = run
        self._pace = pace
        self._validate = validate
        self._schedule = (
            ValidationSchedule(pace.budget, validations)
            if isinstance(validations, int)
            else validations
        )
        self._warm_up = warm_up
        self._best = best
        self._stale = stale
        self._patience = patience
        self._report = report
        self._every_seconds = every_seconds
        self._every_steps = every_steps or math.inf
        self._average = average
        self._epochs = keras.callbacks.CallbackList([epochs] if epochs else [])
        self._state = lambda: epochs.state if epochs else {}
        self._data_state = data.state if data is not None else lambda step: {}

    def set_model(self, model):
        super().set_model(model)
        self._epochs.set_model(model)

    def set_params(self, params):
        super().set_params(params)
        self._epochs.set_params(params)

    def on_train_begin(self, logs=None):
        self._epochs.on_train_begin()
        self._saved = time.monotonic()
        self.saved_step = self._pace.step
        self._schedule.begin(self._pace.used)

    def on_train_batch_begin(self, batch, logs=None):
        self._epochs.on_train_batch_begin(batch)

    def on_train_batch_end(self, batch, logs=None):
        self._epochs.on_train_batch_end(batch, logs)
        if self._schedule.is_due(self._pace.used):
            self._validate_and_keep()
        elif self._is_time_to_save():
            self._save_last()

    def on_train_end(self, logs=None):
        if self._pace.step > self.saved_step:
            self._save_last()
        self._epochs.on_train_end()

    def _is_time_to_save(self) -> bool:
        return (
            time.monotonic() - self._saved > self._every_seconds
            or self._pace.step - self.saved_step >= self._every_steps
        )

    def _validate_and_keep(self):
        with self._average.applied() if self._average else nullcontext():
            metrics = self._validated()
            score = next(iter(metrics.values()))
            self._stale += 1
            if score > self._best:
                self._best, self._stale = score, 0
                self._save(self._run.best_checkpoint)
        self._save_last()
        if self._patience is not None and self._stale >= self._patience:
            self._report(f"stopped: no better than {self._best:.4f} for {self._stale} validations")
            self.model.stop_training = True

    def _validated(self) -> dict[str, float]:
        """The metrics, reported with what they cost."""
        self._warm_up()
        self._warm_up = lambda: None
        started = time.monotonic()
        metrics = self._validate()
        seconds = time.monotonic() - started
        self._schedule.took(seconds, self._pace.used)
        share = self._schedule.seconds / max(self._pace.seconds + seconds, 1e-9)
        figures = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        cost = f"validated in {seconds:.1f} s, all validations {share:.0%} of the time"
        self._report(f"step {self._pace.step}: {figures}  ({cost})")
        return metrics

    def _save_last(self):
        self._save(self._run.last_checkpoint, self._run.previous_checkpoint)
        self._saved = time.monotonic()
        self.saved_step = self._pace.step

    def _save(self, path, previous=None):
        progress = {
            "step": self._pace.step,
            "seconds": self._pace.seconds,
            "best": self._best,
            "stale": self._stale,
            **self._schedule.state,
            **self._state(),
            **self._data_state(self._pace.step),
        }
        self._run.flush()
        save_checkpoint(path, self.model, self.model.optimizer, progress, self._average, previous)
