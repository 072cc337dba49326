"""The adding problem: two marked numbers in a stream of others."""

import tensorflow as tf

from keras_attn.data.seekable import SeekableBatches, seekable_batches


def adding_batches(length: int, batch_size: int, seed: int) -> SeekableBatches:
    """Endless batches of the adding problem, each a function of the seed and its number.

    A sequence is a stream of numbers, uniform in [0, 1), beside a marker that is 1 at one moment of
    the first half and at one of the second, and else 0. The target is the sum of the two marked
    numbers, so that whoever always answers 1 has a mean squared error of 1/6.

    Args:
        length: moments T of a sequence, at least 2.
        batch_size: B.
        seed: of all numbers.

    Returns:
        A dataset of `(sequences (B, T, 2), sums (B, 1))`, float32, that begins at any step.

    Raises:
        ValueError: a length below 2.

    Example:
        >>> sequences, sums = next(iter(adding_batches(length=100, batch_size=50, seed=1)))

    References:
        - [Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735), section
          5.4, where the marks lie within the first half
    """
    if length < 2:
        raise ValueError(f"Two numbers need two moments. Received: length={length}")
    half = length // 2

    def batch(number):
        seeds = tf.random.split([seed, number], 3)
        values = tf.random.stateless_uniform([batch_size, length], seeds[0])
        first = tf.random.stateless_uniform([batch_size], seeds[1], 0, half, tf.int32)
        second = tf.random.stateless_uniform([batch_size], seeds[2], half, length, tf.int32)
        markers = tf.one_hot(first, length) + tf.one_hot(second, length)  # (B, T)
        sums = tf.reduce_sum(values * markers, axis=1, keepdims=True)  # (B, 1)
        return tf.stack([values, markers], axis=-1), sums

    identity = {"length": length, "batch_size": batch_size, "seed": seed}
    return seekable_batches(batch, identity=identity)
