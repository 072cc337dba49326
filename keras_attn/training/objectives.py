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

_TOKENS = ("inputs", "labels", "mask", "weights")


def token_objective(label_smoothing: float = 0.0, z_loss: float = 0.0) -> Callable:
    """The objective of a model that predicts tokens: batches of (inputs, labels, mask).

    A fourth part of a batch are weights of its rows (B,) or tokens (B, T).

    Args:
        label_smoothing: see `losses.token_loss`.
        z_loss: see there.

    Returns:
        `objective(model, batch, training=True) -> (sum, count)`, as `losses.token_loss` gives them.

    Raises:
        ValueError: if a factor has no such value; the objective, if a batch is none of such parts.
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)

    def objective(model, batch, training=True):
        inputs, labels, mask, *weights = _parts(batch, _TOKENS, least=3)
        logits = model(inputs, training=training)
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
        `objective(model, batch, training=True) -> (sum, count)`, for a model that is a
        `keras_attn.protocols.FeatureModel`: `features(inputs, training)` and `output_table`.

    Raises:
        ValueError: as `token_objective`.
    """
    require_smoothing(label_smoothing)
    require_z_loss(z_loss)

    def objective(model, batch, training=True):
        inputs, labels, mask, *sample_weight = _parts(batch, _TOKENS, least=3)
        features = tf.cast(model.features(inputs, training=training), tf.float32)  # (B, T, d)
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
        `objective(model, batch, training=True) -> (sum, count)`: the sum of the squared errors, and
        how many numbers there are.

    Raises:
        ValueError: the objective, if a batch is none of such parts, or its targets have another
            shape than what the model says: nothing is broadcast.
    """

    def objective(model, batch, training=True):
        inputs, targets = _parts(batch, ("inputs", "targets"), least=2)
        outputs = tf.cast(model(inputs, training=training), tf.float32)
        targets = tf.cast(targets, tf.float32)
        if not outputs.shape.is_compatible_with(targets.shape):
            raise ValueError(
                "Targets must have the shape of what the model says, for nothing is broadcast; it "
                f"says {tuple(outputs.shape)}. Received: targets.shape={tuple(targets.shape)}"
            )
        errors = outputs - targets
        return tf.reduce_sum(tf.square(errors)), tf.cast(tf.size(errors), tf.float32)

    return objective


def _parts(batch, names: tuple[str, ...], least: int):
    """The parts of a batch, or `ValueError` that says which they must be."""
    if isinstance(batch, tuple | list) and least <= len(batch) <= len(names):
        return batch
    optional = f", and {names[-1]} if there are any" if least < len(names) else ""
    given = f"{len(batch)} parts" if isinstance(batch, tuple | list) else type(batch).__name__
    raise ValueError(
        f"A batch of this objective is a tuple of {', '.join(names[:least])}{optional}: let the "
        f"dataset give such batches, or write an objective for others. Received: batch of {given}"
    )


def _without_padding(features, labels, weights):
    return [tf.boolean_mask(x, weights != 0) for x in (features, labels, weights)]


def _flat_with_padding(features, labels, weights):
    return (
        tf.reshape(features, [-1, features.shape[-1]]),
        tf.reshape(labels, [-1]),
        tf.reshape(weights, [-1]),
    )
