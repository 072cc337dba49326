"""Checkpoints and validation while a run goes on."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext

import keras

from keras_attn.training.array_file import write_arrays
from keras_attn.training.budget import Pace
from keras_attn.training.checkpoint import checkpoint_arrays
from keras_attn.training.epochs import Epochs
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.validation_schedule import ValidationSchedule
from keras_attn.training.weight_average import WeightAverage

_SECONDS_WORTH_TELLING = 2.0


class KeepCheckpoints(keras.callbacks.Callback):
    """Keeps the last two checkpoints and the best one of a run.

    Training waits only while the values are copied; the run's `writer` writes them beside it. What
    it could not write is raised at the next step, or at the end, which waits for the last write.
    An exception that ends the training in the middle of a step leaves the checkpoint before.

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
        validation_is_due: whether the session before ended in a validation; it begins with it then.
            It is `progress["validation_is_due"]` of `resume`.

    Attributes:
        saved_step: of the last checkpoint.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     Budget, KeepCheckpoints, Pace, RunDirectory, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> run = RunDirectory("runs/kept")
        >>> pace = Pace(Budget(steps=4), learning_rate=lambda used, step: 0.01)
        >>> keeping = KeepCheckpoints(
        ...     run, pace, validate=lambda: {"score": 1.0}, validations=2, report=lambda line: None
        ... )
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[pace, keeping],
        ... )
        4
        >>> sorted(path.name for path in run.checkpoints)
        ['best.npz', 'last.npz', 'previous.npz']
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
        validation_is_due: bool = False,
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
        self._validation_is_due = bool(validation_is_due)
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
        self._told = 0.0
        self._schedule.begin(self._pace.used)
        if self._validation_is_due:
            self._validate_and_keep()
        if self._pace.used >= 1.0:
            self.model.stop_training = True

    def on_train_batch_begin(self, batch, logs=None):
        self._epochs.on_train_batch_begin(batch)

    def on_train_batch_end(self, batch, logs=None):
        self._epochs.on_train_batch_end(batch, logs)
        self._run.writer.check()
        self._tell_long_saves()
        if self._schedule.is_due(self._pace.used):
            self._validation_is_due = True
            self._validate_and_keep()
        elif self._is_time_to_save():
            self._save_last()

    def on_train_end(self, logs=None):
        try:
            if self._pace.step > self.saved_step and self._can_save():
                self._save_last()
            self._run.flush()
            self._run.writer.wait()
            self._tell_long_saves()
        finally:
            self._epochs.on_train_end()

    def _can_save(self) -> bool:
        """Whether the weights are those of the last step, and the disk took the last write."""
        return self.params.get("step") == self._pace.step and not self._run.writer.failed

    def _tell_long_saves(self):
        longest = self._run.writer.longest
        if longest > max(self._told, _SECONDS_WORTH_TELLING):
            self._told = longest
            self._report(
                f"the longest save took {longest:.1f} s; what stops this run must give it longer"
            )

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
                self._validation_is_due = False
                self._save(self._run.best_checkpoint)
        self._validation_is_due = False
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
        self._run.require_lock()
        progress = {
            "step": self._pace.step,
            "seconds": self._pace.seconds,
            "best": self._best,
            "stale": self._stale,
            "validation_is_due": self._validation_is_due,
            **self._schedule.state,
            **self._state(),
            **self._data_state(self._pace.step),
        }
        self._run.flush()
        optimizer = self.model.optimizer
        arrays = checkpoint_arrays(self.model, optimizer, progress, self._average)
        self._run.writer.submit(lambda: write_arrays(path, arrays, previous))
