"""What `compile`, `fit` and `clone_model` of Keras find in a model that predicts tokens."""

import functools
import inspect

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attn.losses import require_one_replica
from keras_attn.ops.masks import token_mask
from keras_attn.special_tokens import PADDING


class TokenModel(keras.Model):
    """A functional model of logits (B, T, V) for an input `target` (B, T), trained by `model.fit`.

    Keras reads which tokens are real from the mask of the logits. They get it where a loss is
    computed, and not in the graph of the model: so its numbers, its files and its exports know
    nothing of padding, and the labels have a say. The inputs alone do not tell: shifted by one
    place, a padded target is longer by its end token than its labels are. Losses and metrics see

    `m_bt = t < length(target_b) and t < length(labels_b)`

    where the length counts up to the last id that is not padding (0).
    """

    def train_step(self, data):
        """Keras' own step with dense gradients.

        Its optimisers clip the slices of an embedding's gradient, in which a token that occurs
        twice counts as two.
        """
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            logits = self(inputs, training=True)
            loss = self.compute_loss(inputs, labels, logits, weights, training=True)
            scaled = self.optimizer.scale_loss(loss)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(logits)[0])
        gradients = tape.gradient(scaled, [weight.value for weight in self.trainable_weights])
        dense = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
        if dense:
            self._apply_if_finite(loss, dense)
        return self.compute_metrics(inputs, labels, logits, sample_weight=weights)

    def _apply_if_finite(self, loss, gradients):
        """Apply the gradients of a loss that is a number.

        XLA can raise nothing for a label outside of the vocabulary: there the loss is NaN, and
        `make_train_function` stops after the step.
        """
        weights = self.trainable_weights
        if not self.optimizer.built:
            self.optimizer.build(weights)

        def apply():
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return tf.constant(True)

        tf.cond(tf.math.is_finite(loss), apply, lambda: tf.constant(False))

    def make_train_function(self, force=False):
        before = self.train_function
        super().make_train_function(force)
        if self.jit_compile and self.train_function is not before:
            self.train_function = _stopping_at_nan(self.train_function, self)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        require_one_replica()
        _require_loss_of_logits(self.loss)
        _require_labels_of_target(y.shape, self._target(x).shape)
        y_pred._keras_mask = ops.logical_and(
            token_mask(self._target(x), PADDING), token_mask(y, PADDING)
        )
        return super().compute_loss(x, y, y_pred, _of_tokens(sample_weight, y), training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred, _of_tokens(sample_weight, y))

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        _refuse_class_weight(keras.Model.fit, self, *args, **kwargs)
        return super().fit(*args, **kwargs)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args, **kwargs):
        _refuse_class_weight(keras.Model.train_on_batch, self, *args, **kwargs)
        return super().train_on_batch(*args, **kwargs)

    def _target(self, inputs):
        """The input `target` of a dict or of the list of its values, which Keras sorts by name."""
        if isinstance(inputs, dict):
            return inputs["target"]
        return keras.tree.flatten(inputs)[sorted(self.input).index("target")]

    def _run_through_graph(self, inputs, operation_fn=None, call_fn=None):
        """Run Keras' graph of layers; refuse to put copies of the layers in their places.

        That is what `clone_model` does, and it makes a plain functional model of them.
        """
        if operation_fn is None:
            return super()._run_through_graph(inputs, call_fn=call_fn)

        def operation_of(layer):
            operation = operation_fn(layer)
            if isinstance(operation, keras.layers.Layer):
                raise ValueError(_no_clone(self))
            return operation

        return super()._run_through_graph(inputs, operation_of, call_fn)


def _stopping_at_nan(train, model):
    """A training function that raises `ValueError` when the loss is not finite."""

    def train_and_look(iterator):
        logs = train(iterator)
        if not np.isfinite(logs["loss"]):
            raise ValueError(
                f"A loss after step {int(model.optimizer.iterations)} was not finite: its step was "
                "not applied and training ended. If a label is not an id of the vocabulary, "
                "jit_compile=False names it. "
                f"Received: loss={float(logs['loss'])}, vocabulary size={model.output_shape[-1]}"
            )
        return logs

    return train_and_look


def _require_labels_of_target(labels_shape, target_shape) -> None:
    fits = len(labels_shape) == 2 and all(
        None in (one, other) or one == other
        for one, other in zip(labels_shape, target_shape, strict=True)
    )
    if not fits:
        raise ValueError(
            "The labels are the tokens that follow those of the input `target`, one each, of its "
            f"shape (B, T). Received: labels.shape={tuple(labels_shape)}, "
            f"target.shape={tuple(target_shape)}"
        )


def _of_tokens(sample_weight, labels):
    """Weights of rows (B,) as weights of their tokens (B, T); Keras' masks need that."""
    if sample_weight is None or len(sample_weight.shape) != 1:
        return sample_weight
    weights = ops.convert_to_tensor(sample_weight)[:, None]
    return ops.broadcast_to(weights, ops.shape(labels))


def _require_loss_of_logits(loss) -> None:
    """Refuse Keras' cross entropies of probabilities, which give numbers for logits too."""
    for each in keras.tree.flatten(loss):
        if _takes_probabilities(each):
            raise ValueError(
                "The model predicts logits, and this loss takes probabilities: compile it with "
                "keras_attn.losses.TokenLoss() or "
                "keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
                f"Received: loss={getattr(each, '__name__', each)!r}"
            )


def _takes_probabilities(loss) -> bool:
    if isinstance(loss, str):
        short = loss.lower() in ("crossentropy", "ce")  # names that only `compile` knows
        loss = keras.losses.get("sparse_categorical_crossentropy" if short else loss)
    if inspect.isfunction(loss):
        option = inspect.signature(loss).parameters.get("from_logits")
        return option is not None and option.default is False
    return getattr(loss, "from_logits", None) is False


def _refuse_class_weight(method, *args, **kwargs) -> None:
    weights = inspect.signature(method).bind(*args, **kwargs).arguments.get("class_weight")
    if weights is not None:
        raise ValueError(
            "Keras weights whole examples by their class, and these labels are tokens: give the "
            f"weight of every token as sample_weight (B, T). Received: class_weight={weights}"
        )


def _no_clone(model) -> str:
    name = type(model).__name__
    return (
        "keras.models.clone_model would copy the layers and leave out methods such as encode and "
        f"step: make a new model by {name}.from_config(model.get_config()), or clone the layers "
        f"alone by clone_model(keras.Model(model.input, model.output)). Received: model={name} "
        f"named {model.name!r}"
    )
