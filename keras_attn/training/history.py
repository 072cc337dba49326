"""The story of a run: what every step and every validation found, line by line."""

import json
import os
import time

import keras

from keras_attn.errors import UserError
from keras_attn.paths import path_of
from keras_attn.training.learning_rate import learning_rate_of
from keras_attn.training.run_directory import RunDirectory


class KeepHistory(keras.callbacks.Callback):
    """Records every step in the run's `history.jsonl`.

    A line has `step`, `loss`, `tokens_per_second`, `learning_rate`, and `gradient_norm` before it
    is clipped, where the loop tells of it. With several steps in a call of the callbacks there is a
    line for each call.

    Args:
        run: whose history is kept. Of several workers the chief alone has this callback.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     KeepHistory, RunDirectory, fit, read_history, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> history = KeepHistory(RunDirectory("runs/a"))
        >>> fit(
        ...     model, batches, 2, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), callbacks=[history],
        ... )
        2
        >>> [entry["step"] for entry in read_history("runs/a")]
        [1, 2]
    """

    def __init__(self, run: RunDirectory):
        super().__init__()
        self._run = run

    def on_train_begin(self, logs=None):
        self._ended = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        entry = {
            "step": batch + 1,
            "loss": logs["loss"],
            "tokens_per_second": round(logs["tokens"] / max(now - self._ended, 1e-9), 1),
            "learning_rate": learning_rate_of(self.model.optimizer),
        }
        if "gradient_norm" in logs:
            entry["gradient_norm"] = logs["gradient_norm"]
        self._run.record(entry)
        self._ended = now

    def on_train_end(self, logs=None):
        self._run.flush()


def read_history(directory: str | os.PathLike) -> list[dict]:
    """The entries of a run's history, in the order in which they were recorded.

    A last line that was cut off by a crash is left out.

    Args:
        directory: of the run.

    Raises:
        UserError: if there is no history, or a line of it is none.

    Example:
        >>> from keras_attn.training import RunDirectory, read_history
        >>> run = RunDirectory("runs/history")
        >>> run.record({"step": 10, "loss": 2.5})
        >>> run.record({"step": 10, "bleu": 12.5})
        >>> run.flush()
        >>> [entry["bleu"] for entry in read_history("runs/history") if "bleu" in entry]
        [12.5]
    """
    path = path_of(directory) / "history.jsonl"
    try:
        *lines, unfinished = path.read_bytes().decode().split("\n")
    except FileNotFoundError as error:
        raise UserError(
            f"{directory} has no history.jsonl to draw: give the directory of a run that has "
            "trained."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read {path}: {error}.") from error
    if unfinished.endswith("}"):
        lines.append(unfinished)
    return [_entry(path, number, line) for number, line in enumerate(lines, start=1) if line]


def _entry(path, number: int, line: str) -> dict:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path}, line {number} is not JSON; remove it.") from error
    if not isinstance(entry, dict) or "step" not in entry:
        raise UserError(f"{path}, line {number} is no entry of a run; remove it.")
    return entry
