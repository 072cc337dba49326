"""The learning rate of an optimiser."""

import keras
import tensorflow as tf


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> float:
    """The rate of the next step, also where a strategy mirrors it or a schedule reckons it."""
    return float(tf.convert_to_tensor(optimizer.learning_rate))
