"""What a training step minimises: a sum and a count for every batch."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.losses import token_loss
from keras_attn.ops.labels import (
    label_tensor,
    require_smoothing,
    require_z_loss,
    token_weights,
)
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy


def token_objective(label_smoothing: float = 0.0, z_loss: float = 0.0) -> Callable:
    """The objective of a model that predicts tokens: batches of (inputs, labels, mask).

    A fourth part of a batch are weights of its rows (B,) or tokens (B, T).

    Args:
        label_smoothing: see `losses.token_loss`.
        z_loss: see there.

    Returns:
        `objective(model, batch) -> (sum, count)`, as `losses.token_loss` gives them.

    Raises:
        ValueError: if a factor has no such value; the objective, if a batch is none of such parts.
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)

    def objective(model, batch):
        inputs, labels, mask, *weights = batch
        logits = model(inputs, training=True)
        return token_loss(labels, logits, mask, label_smoothing, *weights, z_loss=z_loss)

    return objective


def projected_token_objective(label_smoothing: float = 0.0, z_loss: float = 0.0) -> Callable:
    """`token_objective` for a model with a large vocabulary, in a fraction of the time.

    Padding is dropped before the output layer, and loss and gradient are made together
    (`ops.projected_cross_entropy`); the value is the same. Batches of static shape keep their
    padding, with weight 0: they are for XLA, which takes no shape that depends on a mask.

    Args:
        label_smoothing: see `losses.token_loss`.
        z_loss: see there.

    Returns:
        `objective(model, batch) -> (sum, count)`, for a model with `features(inputs, training)`
        (B, T, d) and `output_table` (V, d).

    Raises:
        ValueError: as `token_objective`.
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)

    def objective(model, batch):
        inputs, labels, mask, *sample_weight = batch
        features = tf.cast(model.features(inputs, training=True), tf.float32)  # (B, T, d)
        labels = label_tensor(labels)
        weights = token_weights(labels, features, mask, *sample_weight, name="features")  # (B, T)
        pick = _flat_with_padding if labels.shape.is_fully_defined() else _without_padding
        features, labels, weights = pick(features, labels, weights)  # (N, d), (N,), (N,)
        table = tf.cast(model.output_table, tf.float32)
        total = projected_cross_entropy(features, table, labels, weights, label_smoothing, z_loss)
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


def _without_padding(features, labels, weights):
    return [tf.boolean_mask(x, weights != 0) for x in (features, labels, weights)]


def _flat_with_padding(features, labels, weights):
    return (
        tf.reshape(features, [-1, features.shape[-1]]),
        tf.reshape(labels, [-1]),
        tf.reshape(weights, [-1]),
    )
