"""sorting: numbers written in their order, by which an attention learns to look for a value."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.recipes.number_task import NumberTask, Sizes, Task

SIZES = Sizes(
    embedding_dim=32,
    encoder_units=64,
    decoder_units=128,
    attention_units=256,
    dropout=0.3,
    steepness=10.0,
    batch_size=64,
    learning_rate=1.5e-3,
)


def sorting(seed: int = 1) -> NumberTask:
    """RNNsearch that writes a sequence from its least number to its greatest, repeats included."""
    task = Task(_in_order, same_value, lengths=range(5, 21), shown_length=10)
    samples = ("3 1 4 1 5 9 2 6", "19 17 13 11 7 5 3 2", "8 8 0 8 0 12 12 3")
    return NumberTask("sorting", task, SIZES, {"seed": seed}, samples)


def same_value(source: Sequence[str], written: Sequence[str]) -> np.ndarray:
    """True (T, S) at every position that holds the number that is written.

    Example:
        >>> same_value(["8", "0", "8"], ["0", "8", "8"]).astype(int).tolist()
        [[0, 1, 0], [1, 0, 1], [1, 0, 1]]
    """
    return np.array(written)[:, None] == np.array(source)[None, :]


def _in_order(numbers: tf.Tensor) -> tf.Tensor:
    return tf.sort(numbers, axis=1)
