"""A model without weights is built from the batches, or refused; it is never trained as nothing."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.training import fit, squared_error_objective


def _batches():
    x = tf.random.stateless_normal([8, 3], [1, 2])
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4).repeat()


class Nested(keras.Model):
    """Made of models that are not built, and says that it is."""

    def __init__(self):
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dense(4, activation="tanh")])
        self.outer = keras.layers.Dense(1)
        self.built = True

    def call(self, inputs):
        return self.outer(self.inner(inputs))


class Lazy(keras.Model):
    """Makes a layer in its first call, when Keras thinks that it is built."""

    def __init__(self):
        super().__init__()
        self.layer = None

    def call(self, inputs):
        if self.layer is None:
            self.layer = keras.layers.Dense(1)
        return self.layer(inputs)


def _sequential():
    return keras.Sequential([keras.layers.Dense(1)])


def _fit(model, batches=None, **arguments):
    optimizer = keras.optimizers.SGD(0.1)
    arguments.setdefault("objective", squared_error_objective())
    fit(model, batches or _batches(), 3, optimizer=optimizer, **arguments)
    return optimizer


@pytest.mark.parametrize("make", [_sequential, Nested])
def test_a_model_that_is_not_built_is_trained_as_if_it_had_been(make):
    keras.utils.set_random_seed(1)
    model = make()
    optimizer = _fit(model)
    assert int(optimizer.iterations) == 3
    keras.utils.set_random_seed(1)
    built = make()
    built(tf.zeros([1, 3]))
    _fit(built)
    assert len(model.get_weights()) == len(built.get_weights()) > 0
    for got, expected in zip(model.get_weights(), built.get_weights(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_building_takes_no_batch_out_of_the_data():
    numbers = tf.data.Dataset.range(1, 4).map(lambda i: tf.cast(i, tf.float32))
    batches = numbers.map(lambda i: (tf.fill([4, 3], i), tf.fill([4, 1], i)))
    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
    )
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])
    optimizer = keras.optimizers.SGD(1e-9)
    objective = squared_error_objective()
    fit(model, batches, 3, optimizer=optimizer, objective=objective, callbacks=[watch])
    np.testing.assert_allclose(losses, [1.0, 4.0, 9.0], rtol=1e-4)


def test_what_cannot_be_built_is_refused_with_the_reason():
    def pairs():
        yield np.zeros((4, 3)), np.zeros((4, 1))

    unknown = tf.data.Dataset.from_generator(pairs, (tf.float32, tf.float32)).repeat()
    with pytest.raises(ValueError, match=r"could not be built.*unknown.*call it once.*Received"):
        _fit(_sequential(), unknown)
    with pytest.raises(ValueError, match=r"could not be built.*cannot add new elements of state"):
        _fit(Lazy())


def test_frozen_weights_and_none_at_all_are_nothing_to_train():
    frozen = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    frozen.trainable = False
    with pytest.raises(ValueError, match=r"nothing to train.*all frozen.*Received: model="):
        _fit(frozen)
    with pytest.raises(ValueError, match=r"nothing to train.*are none.*Received: model="):
        _fit(keras.Sequential([keras.Input((3,)), keras.layers.Flatten()]))


def test_an_objective_that_depends_on_no_weight_teaches_nothing_and_is_refused():
    def constant(model, batch):
        return tf.reduce_sum(batch[0]), tf.constant(1.0)

    with pytest.raises(ValueError, match=r"depends on no trained weight.*Received: .*constant"):
        _fit(keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]), objective=constant)
    with pytest.raises(ValueError, match="no weights"):
        _fit(_sequential(), objective=constant)


def test_weights_that_are_broken_before_the_first_step_are_named():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="broken")])
    model.layers[0].kernel.assign(np.full((3, 1), np.inf))
    with pytest.raises(ValueError, match=r"not finite before the first step.*broken/kernel"):
        _fit(model)
