"""What a training step minimises: a sum and a count for every batch."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.losses import token_loss
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy


def token_objective(label_smoothing: float = 0.0) -> Callable:
    """The objective of a model that predicts tokens: batches of (inputs, labels, mask).

    Returns:
        `objective(model, batch) -> (sum, count)`, as `losses.token_loss` gives them.
    """

    def objective(model, batch):
        inputs, labels, mask = batch
        return token_loss(labels, model(inputs, training=True), mask, label_smoothing)

    return objective


def projected_token_objective(label_smoothing: float = 0.0) -> Callable:
    """`token_objective` for a model with a large vocabulary, in a fraction of the time.

    Padding is dropped before the output layer, and loss and gradient are made together
    (`ops.projected_cross_entropy`); the value is the same.

    Returns:
        `objective(model, batch) -> (sum, count)`, for a model with `features(inputs, training)`
        (B, T, d) and `output_table` (V, d).
    """

    def objective(model, batch):
        inputs, labels, mask = batch
        features = model.features(inputs, training=True)
        real = tf.boolean_mask(tf.cast(features, tf.float32), mask)  # (N, d)
        labels = tf.boolean_mask(labels, mask)  # (N,)
        weights = tf.ones_like(labels, tf.float32)
        table = tf.cast(model.output_table, tf.float32)
        total = projected_cross_entropy(real, table, labels, weights, label_smoothing)
        return total, tf.reduce_sum(weights)

    return objective


def squared_error_objective() -> Callable:
    """The objective of a model that predicts numbers: batches of (inputs, targets).

    Returns:
        `objective(model, batch) -> (sum, count)`: the sum of the squared errors, and how many
        numbers there are.
    """

    def objective(model, batch):
        inputs, targets = batch
        errors = tf.cast(model(inputs, training=True), tf.float32) - targets
        return tf.reduce_sum(tf.square(errors)), tf.cast(tf.size(errors), tf.float32)

    return objective
