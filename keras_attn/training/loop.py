"""The steps of a run, and what is told of them."""

import math
import warnings
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.protocols import LossScaler
from keras_attn.training.callbacks_of_run import CallbacksOfRun
from keras_attn.training.faults import (
    COUNT,
    ENDED,
    LABEL,
    NONE,
    why_no_batch,
    why_not_applied,
    why_not_read,
)
from keras_attn.training.train_step import Done, UnreadBatchError
from keras_attn.training.workers import Workers


class Loop:
    """The steps of a run, one call after the other, and what they come to.

    Args:
        model: that is trained.
        train: of `make_train_call`.
        told: the callbacks.
        params: theirs, whose `step` is kept up to date here.
        workers: that train together.
        stops: tells before every step whether a callback of one of them stops the training.
        skips: whether steps that are not finite are skipped.

    Attributes:
        step: how many steps are done.
    """

    def __init__(
        self,
        model: keras.Model,
        train: Callable,
        told: CallbacksOfRun,
        params: dict,
        workers: Workers,
        stops: Callable[[], bool],
        skips: bool,
    ):
        self._model = model
        self._train = train
        self._told = told
        self._params = params
        self._workers = workers
        self._stops = stops
        self._warns_of_skipped = skips  # with a scaled loss it happens as a matter of course
        self._counts_skipped = skips or isinstance(model.optimizer, LossScaler)
        self._skipped = 0
        self.step = params["initial_step"]

    def run(self, steps: int | None, steps_per_call: int) -> None:
        """Train up to a step, or until a callback of one of the workers stops the training.

        Raises:
            UserError: if a step is not applied, there is no batch for it, or workers differ.
        """
        while self._is_before(steps) and not self._stops():
            number = steps_per_call if steps is None else min(steps_per_call, steps - self.step)
            number = self._told.steps_left(self.step, number)
            self._told.begin_step(self.step)
            done = self._done(number)
            if int(done.steps):
                self._advance(done)
            if done.fault[0] != NONE:
                self._end_at_fault(done)
        self._told.end_epoch()

    def warn_of_skipped(self) -> None:
        """Say how many steps were skipped, if any were that should have been finite."""
        if self._skipped and self._warns_of_skipped:
            begin = self._params["initial_step"]
            warnings.warn(
                f"{self._skipped} of the steps {begin + 1} to {self.step} were skipped, because "
                "something in them was not finite.",
                stacklevel=3,
            )

    def _is_before(self, steps: int | None) -> bool:
        return steps is None or self.step < steps

    def _done(self, number: int) -> Done:
        """Take so many steps. An error while devices compute leaves the weights between two."""
        try:
            with self._workers.waiting():
                return Done(*map(np.asarray, self._train(number)))
        except UnreadBatchError as error:
            raise UserError(why_not_read(self.step, number, error.__cause__)) from error.__cause__
        except (tf.errors.OpError, UserError, KeyboardInterrupt) as error:
            self._params["step"] = None
            if isinstance(error, tf.errors.OpError) and "IteratorGetNext" in str(error):
                raise UserError(why_not_read(self.step, number, error)) from error
            raise

    def _advance(self, done: Done) -> None:
        """Tell the callbacks of the steps that are done."""
        self.step += int(done.steps)
        self._params["step"] = self.step
        self._skipped += int(done.skipped)
        applied = max(int(done.steps) - int(done.skipped), 1)
        total, count = float(done.total), float(done.count)
        logs = {
            "loss": total / count if count else 0.0,
            "tokens": count,
            "gradient_norm": float(done.norm) / applied,
        }
        if self._counts_skipped:
            logs["skipped"] = self._skipped
        self._told.end_step(self.step - 1, logs)

    def _end_at_fault(self, done: Done) -> None:
        """Raise `UserError`, or stop where a callback ends the training at what is not finite."""
        kind, *label_and_size = map(
            int, [done.fault[0], *self._workers.first_not_zero(done.fault[1:])]
        )
        if kind == ENDED:
            steps, initial_step = self._params["total_steps"], self._params["initial_step"]
            raise UserError(why_no_batch(self.step, steps, initial_step))
        if kind not in (LABEL, COUNT) and self._told.terminating:
            for callback in self._told.terminating:
                callback.on_batch_end(self.step, {"loss": math.nan})
            return
        names = [variable.path for variable in self._model.trainable_variables]
        loss = float(done.loss)
        raise UserError(why_not_applied(self.step + 1, kind, *label_and_size, loss, names))
