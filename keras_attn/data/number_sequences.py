"""Sequences of small numbers, which a task wants in another order."""

import tensorflow as tf

from keras_attn.data.seekable import SeekableBatches, seekable_batches

NUMBERS = 20
"""How many different numbers there are: 0 to 19."""


def number_sequences(
    shortest: int, longest: int, batch_size: int, seed: int, numbers: int = NUMBERS
) -> SeekableBatches:
    """Endless batches of sequences of numbers, each a function of the seed and its step.

    All sequences of a batch have one length, drawn between the shortest and the longest, so that
    nothing is padded. The numbers are drawn independently: they repeat.

    Args:
        shortest, longest: lengths n, both included.
        batch_size: B.
        seed: of lengths and numbers.
        numbers: how many different ones there are, from 0 on.

    Returns:
        A dataset of sequences (B, n), int32, that begins at any step.

    Raises:
        ValueError: unless 1 <= shortest <= longest and there is a number.

    Example:
        >>> batches = number_sequences(shortest=5, longest=5, batch_size=2, seed=1)
        >>> next(iter(batches)).shape
        TensorShape([2, 5])
    """
    if not 1 <= shortest <= longest:
        raise ValueError(
            "Lengths begin at 1, and the longest is no shorter than the shortest. "
            f"Received: shortest={shortest}, longest={longest}"
        )
    if numbers < 1:
        raise ValueError(f"There must be a number to draw. Received: numbers={numbers}")

    def batch(step):
        seeds = tf.random.split([seed, step], 2)
        length = tf.random.stateless_uniform([], seeds[0], shortest, longest + 1, tf.int32)
        return tf.random.stateless_uniform([batch_size, length], seeds[1], 0, numbers, tf.int32)

    identity = {
        "shortest": shortest,
        "longest": longest,
        "batch_size": batch_size,
        "seed": seed,
        "numbers": numbers,
    }
    return seekable_batches(batch, identity=identity)
