"""Progress of a training run, for a terminal and for a log."""

import time

import keras
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class ProgressBar(keras.callbacks.Callback):
    """Shows step, loss, tokens a second and the time that is left.

    On a terminal it is a bar; elsewhere a line every `log_seconds`.

    Args:
        description: what is running.
        log_seconds: seconds between two lines where there is no terminal.
    """

    def __init__(self, description: str, log_seconds: float = 15.0):
        super().__init__()
        self._description = description
        self._log_seconds = log_seconds
        self._console = Console(stderr=True)

    def on_train_begin(self, logs=None):
        self._steps = self.params["steps"]
        self._done = self.params.get("initial_step", 0)
        self._loss = None
        self._tokens = 0.0
        self._started = self._logged = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(
            self._description, total=self._steps, completed=self._done, status=""
        )
        self._progress.start()
        self._print_line()

    def on_train_batch_end(self, batch, logs=None):
        self._done = batch + 1
        self._tokens += logs["tokens"]
        smooth = 0.98 if self._loss is not None else 0.0
        self._loss = smooth * (self._loss or 0.0) + (1 - smooth) * logs["loss"]
        self._progress.update(self._task, completed=self._done, status=self._status())
        now = time.monotonic()
        if now - self._logged >= self._log_seconds:
            self._logged = now
            self._print_line()

    def on_train_end(self, logs=None):
        self._progress.stop()
        self._print_line()

    def _print_line(self):
        """A line for a log; a terminal has the bar."""
        if not self._console.is_terminal:
            self._console.print(
                f"{self._description}: step {self._done} of {self._steps}  {self._status()}",
                soft_wrap=True,
                highlight=False,
            )

    def _status(self) -> str:
        speed = self._tokens / max(time.monotonic() - self._started, 1e-9)
        return "" if self._loss is None else f"loss {self._loss:.4f}  {speed:,.0f} tokens/s"
