"""What a training step minimises: a sum and a count for every batch."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.losses import token_loss
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy


def token_objective(label_smoothing: float = 0.0) -> Callable:
    """The objective of a model that predicts tokens: batches of (inputs, labels, mask).

    A fourth part of a batch are weights of its rows (B,) or tokens (B, T).

    Returns:
        `objective(model, batch) -> (sum, count)`, as `losses.token_loss` gives them.
    """

    def objective(model, batch):
        inputs, labels, mask, *weights = batch
        logits = model(inputs, training=True)
        return token_loss(labels, logits, mask, label_smoothing, *weights)

    return objective


def projected_token_objective(label_smoothing: float = 0.0) -> Callable:
    """`token_objective` for a model with a large vocabulary, in a fraction of the time.

    Padding is dropped before the output layer, and loss and gradient are made together
    (`ops.projected_cross_entropy`); the value is the same. Batches of static shape keep their
    padding, with weight 0: they are for XLA, which takes no shape that depends on a mask.

    Returns:
        `objective(model, batch) -> (sum, count)`, for a model with `features(inputs, training)`
        (B, T, d) and `output_table` (V, d).
    """

    def objective(model, batch):
        inputs, labels, mask = batch
        mask = tf.convert_to_tensor(mask)
        features = tf.cast(model.features(inputs, training=True), tf.float32)
        pick = _flat_with_padding if mask.shape.is_fully_defined() else _without_padding
        features, labels, weights = pick(features, labels, mask)  # (N, d), (N,), (N,)
        table = tf.cast(model.output_table, tf.float32)
        total = projected_cross_entropy(features, table, labels, weights, label_smoothing)
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


def _without_padding(features, labels, mask):
    labels = tf.boolean_mask(labels, mask)
    return tf.boolean_mask(features, mask), labels, tf.ones_like(labels, tf.float32)


def _flat_with_padding(features, labels, mask):
    weights = tf.reshape(tf.cast(mask, tf.float32), [-1])
    return tf.reshape(features, [-1, features.shape[-1]]), tf.reshape(labels, [-1]), weights
