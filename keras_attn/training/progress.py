"""Progress of a training run, for a terminal and for a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar(keras.callbacks.Callback):
    """Shows step, loss, tokens a second and the time that is left.

    On a terminal it is a bar; elsewhere a line every `log_seconds`.

    Args:
        description: what is running.
        used: returns the share of the run that is done; by default that of the steps.
        log_seconds: seconds between two lines where there is no terminal.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     ProgressBar, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[ProgressBar("mine")],
        ... )
        4
    """

    def __init__(
        self,
        description: str,
        used: Callable[[], float] | None = None,
        log_seconds: float = 15.0,
    ):
        super().__init__()
        self._description = description
        self._used = used or self._used_steps
        self._log_seconds = log_seconds
        self._console = Console(stderr=True)

    def show(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(f"{self._description}: {line}", soft_wrap=True, highlight=False)

    def on_train_begin(self, logs=None):
        self._step = self.params.get("initial_step", 0)
        self._loss = None
        self._tokens = 0.0
        self._doing = "compiling the training step, which takes up to a minute"
        self._began = self._started = self._logged = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(
            self._description, total=1.0, completed=self._used(), status=self._status()
        )
        self._progress.start()
        self._log()

    def on_train_batch_end(self, batch, logs=None):
        self._step = batch + 1
        if self._doing:  # tokens a second are of what comes after it
            self._doing, self._started = "", time.monotonic()
            self.show(f"compiled in {self._started - self._began:.0f} s")
        else:
            self._tokens += logs["tokens"]
        smooth = 0.98 if self._loss is not None else 0.0
        self._loss = smooth * (self._loss or 0.0) + (1 - smooth) * logs["loss"]
        self._progress.update(self._task, completed=self._used(), status=self._status())
        now = time.monotonic()
        if now - self._logged >= self._log_seconds:
            self._logged = now
            self._log()

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """While this lasts the bar says that something else is done than training."""
        self._doing = doing
        self._progress.update(self._task, status=self._status())
        try:
            yield
        finally:
            self._doing = ""

    def on_train_end(self, logs=None):
        self._progress.stop()
        self._log()

    def _log(self):
        """A line for a log; a terminal has the bar."""
        if not self._console.is_terminal:
            self.show(self._status())

    def _status(self) -> str:
        steps = self._steps
        status = f"step {self._step}" + (f" of {steps}" if steps else "")
        if self._doing:
            return f"{status}  {self._doing}"
        if self._loss is None:
            return status
        seconds = max(time.monotonic() - self._started, 1e-9)
        return f"{status}  loss {self._loss:.4f}  {self._tokens / seconds:,.0f} tokens/s"

    def _used_steps(self) -> float:
        return self._step / self._steps if self._steps else 0.0

    @property
    def _steps(self) -> int | None:
        """The step at which the run ends; `steps` are those of an epoch."""
        return self.params.get("total_steps", self.params["steps"])
