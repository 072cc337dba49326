"""sorting: numbers written in their order, by which an attention learns to look for a value."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.recipes.number_settings import SortingSettings
from keras_attn.recipes.number_task import NumberTask, Task
from keras_attn.recipes.settings import made


def sorting(**settings) -> NumberTask:
    """RNNsearch that writes a sequence from its least number to its greatest, repeats included.

    The settings are those of `SortingSettings`.
    """
    task = Task(_in_order, same_value, lengths=range(5, 21), shown_length=10)
    samples = ("3 1 4 1 5 9 2 6", "19 17 13 11 7 5 3 2", "8 8 0 8 0 12 12 3")
    own = made(SortingSettings, settings, "The recipe sorting")
    return NumberTask("sorting", task, own, samples)


def same_value(source: Sequence[str], written: Sequence[str]) -> np.ndarray:
    """True (T, S) at every position that holds the number that is written.

    Example:
        >>> same_value(["8", "0", "8"], ["0", "8", "8"]).astype(int).tolist()
        [[0, 1, 0], [1, 0, 1], [1, 0, 1]]
    """
    return np.array(written)[:, None] == np.array(source)[None, :]


def _in_order(numbers: tf.Tensor) -> tf.Tensor:
    return tf.sort(numbers, axis=1)
