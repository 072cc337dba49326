"""`val_loss` is the objective over all validation data, of a model that is not training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import fit, squared_error_objective


class Model(keras.Model):
    """Says something else in training, and keeps a moving mean."""

    def __init__(self):
        super().__init__()
        keras.utils.set_random_seed(2)
        self.norm = keras.layers.BatchNormalization()
        self.dropout = keras.layers.Dropout(0.5, seed=1)
        self.dense = keras.layers.Dense(1)
        self(tf.zeros([1, 3]))

    def features(self, inputs, training=None):
        return self.dropout(self.norm(inputs, training=training), training=training)

    def call(self, inputs, training=None):
        return self.dense(self.features(inputs, training))


def _data(rows=7):
    x = tf.random.stateless_normal([rows, 3], [1, 2])
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1]))


def _sum_and_count(errors):
    return tf.reduce_sum(errors**2), tf.cast(tf.size(errors), tf.float32)


def _by_call(model, batch):
    return _sum_and_count(model(batch[0], training=True) - batch[1])


def _by_features(model, batch):
    return _sum_and_count(model.dense(model.features(batch[0], True)) - batch[1])


def _by_layers(model, batch, training=True):
    x = model.dropout(model.norm(batch[0], training=training), training=training)
    return _sum_and_count(model.dense(x) - batch[1])


def _validated(objective, validation_data, **arguments):
    """The model after a step, and its `val_loss`."""
    model, losses = Model(), []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: losses.append(logs["val_loss"])
    )
    fit(
        model, _data().batch(4).repeat(), 1, optimizer=keras.optimizers.SGD(0.1),
        objective=objective, callbacks=[watch], validation_data=validation_data, **arguments,
    )  # fmt: skip
    return model, losses[-1]


@pytest.mark.parametrize(
    "objective", [squared_error_objective(), _by_call, _by_features, _by_layers]
)
def test_the_objective_is_that_of_a_model_at_inference(objective):
    model, loss = _validated(objective, _data().batch(3))
    x, y = next(iter(_data().batch(7)))
    expected = tf.reduce_mean((model(x, training=False) - y) ** 2)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    plain = Model()
    fit(
        plain, _data().batch(4).repeat(), 1, optimizer=keras.optimizers.SGD(0.1),
        objective=objective,
    )  # fmt: skip
    for got, expected in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_validation_data_without_an_end_or_without_a_row_are_refused():
    with pytest.raises(ValueError, match=r"have an end.*Received: validation_data="):
        _validated(_by_call, _data().batch(3).repeat())
    with pytest.raises(UserError, match=r"no token that counts.*Received: validation_data="):
        _validated(_by_call, _data().batch(3).take(0))
