"""The moving average of the weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf


class WeightAverage:
    """The exponential moving average of a model's trainable weights, for evaluation.

    After step t of training, `a <- d_t a + (1 - d_t) w` with `d_t = min(decay, (1 + t)/(10 + t))`,
    so that the first weights are soon forgotten. `fit` updates it; training itself never sees it.

    Make it where the model was made, in the scope of the strategy.

    Args:
        model: whose weights are averaged.
        decay: d, in [0, 1).

    Attributes:
        variables: the averages, in the order of `model.trainable_variables`.

    Raises:
        ValueError: if the decay is outside [0, 1).

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import WeightAverage, fit, squared_error_objective
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> average = WeightAverage(model, decay=0.9)
        >>> fit(
        ...     model, batches, 10, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(), average=average,
        ... )
        10
        >>> with average.applied():
        ...     model.save("averaged.keras")

    Reference:
        Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging".
    """

    def __init__(self, model: keras.Model, decay: float = 0.999):
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"A decay is a number in [0, 1). Received: decay={decay}")
        self.decay = decay
        self._weights = model.trainable_variables
        self.variables = [
            keras.Variable(weight.numpy(), dtype=weight.dtype, trainable=False, name=weight.name)
            for weight in self._weights
        ]

    def update(self, step) -> None:
        """Take in the weights after so many steps; every replica does it with its own copy."""
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
        for average, weight in zip(self.variables, self._weights, strict=True):
            share = tf.cast(1.0 - decay, weight.dtype)
            average.assign_add(share * (weight.value - average.value))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While this lasts the model has the averaged weights; then it has its own again."""
        own = [weight.numpy() for weight in self._weights]
        self._assign(average.numpy() for average in self.variables)
        try:
            yield
        finally:
            self._assign(own)

    def _assign(self, values) -> None:
        for weight, value in zip(self._weights, values, strict=True):
            weight.assign(value)
