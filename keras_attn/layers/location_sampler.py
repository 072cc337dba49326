"""Where to look next: a location drawn around the place that a policy names."""

import keras
import tensorflow as tf

from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.score_function import gaussian_log_probability
from keras_attn.saved import registered


@registered
class LocationSampler(keras.layers.Layer):
    """A location drawn from a Gaussian in training, and its middle otherwise.

    `l = m + s n` with n standard normal in training, `l = m` else; `log p = log N(l; m, s)`. The
    location is a constant to every gradient: what is learned about it is learned from its
    log-probability, by `keras_attn.reinforce`.

    Args:
        stddev: s, a positive number.
        seed: of the draws. Defaults to `None`.

    Call arguments:
        means: (B, 2).
        training: Whether to draw.

    Returns:
        Locations (B, 2), clipped to [-1, 1], and log-probabilities (B,) of what was drawn, both in
        float32 at least.

    Raises:
        ValueError: `stddev` is not a positive number.

    Example:

    >>> import keras
    >>> from keras_attn.layers import LocationSampler
    >>> location, log_probability = LocationSampler(0.1)(keras.ops.zeros((2, 2)))
    >>> location.numpy().tolist(), tuple(log_probability.shape)
    ([[0.0, 0.0], [0.0, 0.0]], (2,))

    Reference:
        Mnih et al. 2014, "Recurrent models of visual attention", https://arxiv.org/abs/1406.6247
    """

    def __init__(self, stddev: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(stddev, int | float) or not 0 < stddev < float("inf"):
            raise ValueError(
                f"The deviation of a location is a positive number. Received: stddev={stddev!r}"
            )
        self.stddev = float(stddev)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, means_shape):
        pass

    def call(self, means, training=False):
        means = tf.cast(means, wide_dtype(self.compute_dtype))
        location = tf.stop_gradient(means)
        if training:
            shape = tf.shape(means)
            noise = keras.random.normal(shape, seed=self.seed_generator, dtype=means.dtype)
            location += self.stddev * noise
        log_probability = gaussian_log_probability(location, means, self.stddev)
        return tf.clip_by_value(location, -1.0, 1.0), log_probability

    def compute_output_spec(self, means, training=False):
        dtype = wide_dtype(self.compute_dtype)
        return keras.KerasTensor(means.shape, dtype), keras.KerasTensor(means.shape[:1], dtype)

    def get_config(self):
        return {**super().get_config(), "stddev": self.stddev, "seed": self.seed}
