"""reversal: numbers written backwards, by which an attention learns to look from right to left."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.recipes.number_settings import ReversalSettings
from keras_attn.recipes.number_task import NumberTask, Task
from keras_attn.recipes.settings import made


def reversal(**settings) -> NumberTask:
    """RNNsearch that writes a sequence backwards; nobody tells it where to look.

    The settings are those of `ReversalSettings`.
    """
    task = Task(_backwards, anti_diagonal, lengths=range(5, 21), shown_length=15)
    samples = ("3 1 4 1 5 9 2 6", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14", "7 7 7 3 7 7")
    own = made(ReversalSettings, settings, "The recipe reversal")
    return NumberTask("reversal", task, own, samples)


def anti_diagonal(source: Sequence[str], written: Sequence[str]) -> np.ndarray:
    """True (T, S) at the last position for the first token, at the one before for the second.

    Example:
        >>> anti_diagonal(["4", "7"], ["7", "4"]).astype(int).tolist()
        [[0, 1], [1, 0]]
    """
    return np.eye(len(source), dtype=bool)[::-1][: len(written)]


def _backwards(numbers: tf.Tensor) -> tf.Tensor:
    return tf.reverse(numbers, axis=[1])
