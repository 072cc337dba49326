"""Losses that a model adds are those of the whole batch, however it is cut into parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.training import fit


class Adding(keras.layers.Layer):
    """Passes its inputs on and adds a sum or a mean over their rows as a loss."""

    def __init__(self, reduction, **arguments):
        super().__init__(**arguments)
        self._reduction = reduction

    def call(self, inputs):
        of_rows = 0.1 * tf.reduce_sum(inputs**2, axis=-1)
        self.add_loss(getattr(tf, f"reduce_{self._reduction}")(of_rows))
        return inputs


def _model(*adding, activity="l2"):
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh", activity_regularizer=activity),
            *(Adding(reduction, name=f"adding_{reduction}") for reduction in adding),
            keras.layers.Dense(1, kernel_regularizer="l2", activity_regularizer=activity),
        ]
    )


def _batches():
    """7 rows, of which those count whose weight is not 0: most of the tokens are in one part."""
    x = tf.random.stateless_normal([7, 3], [1, 2])
    weights = tf.constant([3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    return tf.data.Dataset.from_tensors((x, x[:, :1], weights)).repeat()


def _objective(model, batch):
    x, y, weights = batch
    errors = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=-1)
    return tf.reduce_sum(weights * errors), tf.reduce_sum(weights)


def _trained(model, batches=None, **arguments):
    options = {"optimizer": keras.optimizers.SGD(0.1), "objective": _objective, **arguments}
    fit(model, batches or _batches(), 4, **options)
    return model.get_weights()


@pytest.mark.parametrize(("rule", "jit_compile"), [("sum", False), ("mean", True)])
def test_parts_add_up_to_the_losses_of_the_batch(rule, jit_compile):
    options = {"added_losses": rule, "jit_compile": jit_compile}
    parts = _trained(_model(rule), accumulate=3, **options)
    for got, expected in zip(parts, _trained(_model(rule)), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_one_part_needs_no_rule_and_is_the_gradient_of_the_sum_of_all_losses():
    model, (x, y, weights) = _model("sum", "mean"), next(iter(_batches()))
    before = model.get_weights()
    with tf.GradientTape() as tape:
        total, count = _objective(model, (x, y, weights))
        loss = total / count + tf.add_n(model.losses)
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    fit(model, _batches(), 1, optimizer=keras.optimizers.SGD(0.1), objective=_objective)
    for got, old, gradient in zip(model.get_weights(), before, gradients, strict=True):
        np.testing.assert_allclose(got, old - 0.1 * gradient.numpy(), atol=1e-6)


def test_several_parts_of_an_unknown_loss_are_refused_and_leave_the_model_usable():
    model = _model("mean")
    with pytest.raises(ValueError, match=r"say with fit\(added_losses=.*Received: .* 2 parts"):
        _trained(model, accumulate=2)
    model(tf.ones([2, 3]))
    assert len(model.losses) == 4
    with pytest.raises(ValueError, match=r"one of sum, mean, or None\..*added_losses='max'"):
        _trained(model, added_losses="max")


def test_penalties_are_clipped_with_the_gradient_and_move_nothing_without_a_real_token():
    options = {"added_losses": "sum", "clip_norm": 0.05}
    parts = _trained(_model("sum"), accumulate=2, **options)
    for got, expected in zip(parts, _trained(_model("sum"), **options), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    padding = _batches().map(lambda x, y, weights: (x, y, 0.0 * weights))
    for accumulate in (1, 2):
        model = _model("sum")
        before = model.get_weights()
        after = _trained(model, padding, accumulate=accumulate, **options)
        for got, expected in zip(after, before, strict=True):
            np.testing.assert_array_equal(got, expected)
