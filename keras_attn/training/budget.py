"""How long a run may train, and the learning rate on the way."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import keras

from keras_attn.training.supported import require_rate_that_can_be_set


@dataclass(frozen=True)
class Budget:
    """The end of a training run: so many steps, or so many minutes of training, what comes first.

    Args:
        steps: optimiser steps, or None for no limit.
        minutes: minutes of wall-clock time, validation and checkpoints included but not what is
            compiled, added up over the sessions of an interrupted run; or None for no limit.

    Raises:
        ValueError: if both are None or one is not positive.

    Example:
        >>> from keras_attn.training import Budget
        >>> Budget(steps=100).used(step=25, seconds=7.0)
        0.25
    """

    steps: int | None = None
    minutes: float | None = None

    def __post_init__(self):
        if self.steps is None and self.minutes is None:
            raise ValueError("A budget has steps or minutes. Received: steps=None, minutes=None")
        for name in ("steps", "minutes"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise ValueError(f"A budget is a positive number. Received: {name}={value}")

    def used(self, step: int, seconds: float) -> float:
        """The share of the budget that is used, 1 at its end."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(step / self.steps)
        if self.minutes is not None:
            shares.append(seconds / (60 * self.minutes))
        return min(max(shares), 1.0)


def warmed_up_then_linear(peak: float, warmup_steps: int) -> Callable[[float, int], float]:
    """A learning rate that rises for so many steps and falls to 0 as the budget is used up.

    `rate(used, step) = peak * min(step / warmup_steps, 1) * (1 - used)`

    Example:
        >>> from keras_attn.training import warmed_up_then_linear
        >>> rate = warmed_up_then_linear(peak=0.01, warmup_steps=100)
        >>> rate(0.5, 1000)
        0.005
    """

    def rate(used: float, step: int) -> float:
        return peak * min((step + 1) / warmup_steps, 1.0) * max(1.0 - used, 1e-3)

    return rate


def warmed_up_then_inverse_square_root(
    peak: float, warmup_steps: int
) -> Callable[[float, int], float]:
    """A learning rate that rises for so many steps and then falls with the root of the steps.

    `rate(step) = peak * min(step / warmup_steps, sqrt(warmup_steps / step))`, whatever the budget.
    With `peak = (d * warmup_steps) ** -0.5` it is the schedule of Vaswani et al. 2017, section 5.3,
    for a model of width d: `d^-0.5 min(step^-0.5, step warmup_steps^-1.5)`.

    Example:
        >>> from keras_attn.training import warmed_up_then_inverse_square_root
        >>> rate = warmed_up_then_inverse_square_root(peak=0.01, warmup_steps=100)
        >>> round(rate(0.5, 400), 4)
        0.005
    """

    def rate(used: float, step: int) -> float:
        share = (step + 1) / warmup_steps
        return peak * min(share, share**-0.5)

    return rate


class Stopwatch:
    """A clock in seconds that can be held; a system clock that jumps does not move it.

    Example:
        >>> import time
        >>> from keras_attn.training import Stopwatch
        >>> clock = Stopwatch()
        >>> with clock.held():  # while something is done that does not count
        ...     time.sleep(0.2)
        >>> clock() - clock() < 0.1
        True
    """

    def __init__(self):
        self._held = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self._held

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts no time passes."""
        began = self()
        try:
            yield
        finally:
            self._held += self() - began


class Pace(keras.callbacks.Callback):
    """Sets the learning rate before every step and ends training when the budget is used up.

    Args:
        budget: of the run.
        learning_rate: `learning_rate(used, step)`, the share of the budget used and the steps done.
        seconds: used in earlier sessions.
        clock: tells the time in seconds. It is read once a step, by all workers together if it is
            `Workers.clock`.

    The first step of a session, in which TensorFlow compiles the training step, takes no time from
    the budget.

    Attributes:
        step: steps done.
        seconds: of training at the end of the last step, all sessions together.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     Budget, Pace, warmed_up_then_linear, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> pace = Pace(Budget(steps=4), warmed_up_then_linear(peak=0.01, warmup_steps=2))
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[pace],
        ... )
        4
        >>> pace.step, pace.used
        (4, 1.0)
    """

    def __init__(
        self,
        budget: Budget,
        learning_rate: Callable[[float, int], float],
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__()
        self.budget = budget
        self._learning_rate = learning_rate
        self._clock = clock
        self.seconds = seconds
        self.step = 0

    @property
    def used(self) -> float:
        """The share of the budget that is used."""
        return self.budget.used(self.step, self.seconds)

    def on_train_begin(self, logs=None):
        require_rate_that_can_be_set(self.model.optimizer, type(self).__name__)
        self._started = None
        self.step = self.params.get("initial_step", 0)

    def on_train_batch_begin(self, batch, logs=None):
        rate = self._learning_rate(self.used, batch)
        self.model.optimizer.learning_rate.assign(rate)

    def on_train_batch_end(self, batch, logs=None):
        self.step = batch + 1
        now = self._clock()
        if self._started is None:
            self._started = now - self.seconds
        self.seconds = now - self._started
        if self.used >= 1.0:
            self.model.stop_training = True
