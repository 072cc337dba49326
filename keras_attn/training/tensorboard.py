"""Curves of a run for TensorBoard, written by TensorFlow alone."""

import os
import time

import keras
import tensorflow as tf

from keras_attn.training.learning_rate import learning_rate_of

# What tensorboard.plugins.scalar writes, whose package need not be here to write it.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


class TensorBoardCurves(keras.callbacks.Callback):
    """Writes loss, learning rate, gradient norm and tokens a second every so many steps.

    A run that goes on in the same directory goes on with the same curves.

    Args:
        directory: for `tensorboard --logdir`.
        every_steps: between two points of a curve, each a mean since the one before; rate and norm
            are those of the last step.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import (
        ...     TensorBoardCurves, fit, squared_error_objective
        ... )
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> fit(
        ...     model, batches, 4, optimizer=keras.optimizers.Adam(),
        ...     objective=squared_error_objective(),
        ...     callbacks=[TensorBoardCurves("curves", every_steps=2)],
        ... )
        4
    """

    def __init__(self, directory: str | os.PathLike, every_steps: int = 20):
        super().__init__()
        self._directory = str(directory)
        self._every_steps = every_steps
        self._writer = None

    def add(self, values: dict[str, float], step: int) -> None:
        """Add a point to each of these curves."""
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, _SCALAR)
        self._writer.flush()

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(self._directory)
        self._begin()

    def on_train_batch_end(self, batch, logs=None):
        self._loss += logs["loss"] * logs["tokens"]
        self._tokens += logs["tokens"]
        if (batch + 1) % self._every_steps == 0:
            seconds = time.monotonic() - self._started
            points = {
                "loss": self._loss / max(self._tokens, 1.0),
                "learning_rate": learning_rate_of(self.model.optimizer),
                "tokens_per_second": self._tokens / max(seconds, 1e-9),
            }
            if "gradient_norm" in logs:
                points["gradient_norm"] = logs["gradient_norm"]
            self.add(points, batch + 1)
            self._begin()

    def on_train_end(self, logs=None):
        self._writer.close()

    def _begin(self):
        self._loss = self._tokens = 0.0
        self._started = time.monotonic()
