"""Steps that are not finite are skipped if it is asked for, and leave no trace but their number."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import WeightAverage, fit

NOT_FINITE = 3, 4, 6  # steps, counted from 1


def _model(scale=None):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization()(inputs)
    x = keras.layers.Dropout(0.3, seed=3)(x)
    model, optimizer = keras.Model(inputs, keras.layers.Dense(1)(x)), keras.optimizers.Adam(0.05)
    if scale:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=scale)
    optimizer.build(model.trainable_variables)
    return model, optimizer, WeightAverage(model, 0.5)


def _batches(not_finite=NOT_FINITE, value=np.nan):
    """One number in the inputs of some steps is not finite."""

    def batch(step):
        x = tf.random.stateless_normal([4, 3], [1, step])
        spoils = tf.reduce_any(tf.equal(step + 1, tf.constant([*not_finite], tf.int32)))
        here = spoils & (tf.reshape(tf.range(12), [4, 3]) == 5)
        return tf.where(here, tf.constant(value, tf.float32), x), x[:, :1]

    return tf.data.Dataset.counter(dtype=tf.int32).map(batch)


def _objective(model, batch):
    errors = model(batch[0], training=True) - batch[1]
    return tf.reduce_sum(errors**2), tf.cast(tf.size(errors), tf.float32)


def _fit(built, batches, steps=8, **arguments):
    model, optimizer, average = built
    logs = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, at_end: logs.append((step, at_end))
    )
    options = {"objective": _objective, "skip_not_finite": True, **arguments}
    fit(
        model, batches, steps, optimizer=optimizer, average=average, callbacks=[watch], **options
    )  # fmt: skip
    return logs


def _state(built):
    return [variable.numpy() for part in built for variable in part.variables]


@pytest.mark.parametrize(
    "options",
    [{}, {"steps_per_call": 4}, {"jit_compile": True}, {"clip_norm": 0.1}],
    ids=str,
)
def test_a_run_with_skipped_steps_is_one_without_their_batches(options):
    built, reference = _model(), _model()
    with pytest.warns(UserWarning, match=r"^3 of the steps 1 to 8 were skipped"):
        logs = _fit(built, _batches(), **options)
    good = _batches().enumerate().filter(lambda i, _: ~tf.reduce_any(i + 1 == NOT_FINITE))
    expected = _fit(reference, good.map(lambda i, batch: batch), 5, **options)
    assert logs[-1][0] == 7
    for got, want in zip(_state(built), _state(reference), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    if not options:
        assert [at_end["skipped"] for _, at_end in logs] == [0, 0, 1, 2, 2, 3, 3, 3]
        applied = [at_end for _, at_end in logs if at_end["tokens"]]
        for at_end, wanted in zip(applied, (at_end for _, at_end in expected), strict=True):
            for name in ("loss", "tokens", "gradient_norm"):
                np.testing.assert_allclose(at_end[name], wanted[name], rtol=1e-5)


def test_the_mean_of_an_epoch_is_over_the_steps_that_were_applied():
    losses = []
    epochs = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(logs))
    model, optimizer, _ = _model()
    steps = []
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda i, logs: steps.append(logs))
    with pytest.warns(UserWarning, match="3 of the steps"):
        fit(
            model, _batches(), 6, optimizer=optimizer, objective=_objective, skip_not_finite=True,
            callbacks=[epochs, watch], steps_per_epoch=6,
        )  # fmt: skip
    applied = [logs["loss"] for logs in steps if logs["tokens"]]
    assert len(applied) == 3
    np.testing.assert_allclose(losses[0]["loss"], np.mean(applied), rtol=1e-6)


def test_a_state_that_would_not_be_finite_is_a_fault_of_its_own():
    """The loss does not depend on it, and says nothing."""

    class Mean(keras.layers.Layer):
        def build(self, shape):
            self.mean = self.add_weight(shape=(3,), trainable=False)
            super().build(shape)

        def call(self, inputs):
            self.mean.assign(tf.reduce_mean(inputs, axis=0))
            return tf.where(tf.math.is_finite(inputs), inputs, 0.0)

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(Mean()(inputs)))
    optimizer = keras.optimizers.SGD(0.1)
    built = model, optimizer, None
    with pytest.raises(UserError, match=r"^Step 3 .*a state of a layer.*Received: loss=\d"):
        _fit(built, _batches(), skip_not_finite=False)
    assert all(np.isfinite(value).all() for value in model.get_weights())
    assert int(optimizer.iterations) == 2


def test_a_scaled_loss_that_is_never_finite_ends_and_says_why():
    built = _model(scale=8.0)
    with pytest.raises(UserError, match=r"^Step 19 .*its loss is not finite"):  # 8 / 2**18
        _fit(built, _batches(range(1, 99)), 50, skip_not_finite=False, steps_per_call=10)
    assert all(np.isfinite(value).all() for value in _state(built))
    built = _model(scale=8.0)
    with pytest.warns(UserWarning, match="30 of the steps"):
        logs = _fit(built, _batches(range(1, 31)), 40)
    assert logs[-1][1]["skipped"] == 30
    assert float(built[1].dynamic_scale) == 2.0**-15
    assert all(np.isfinite(value).all() for value in _state(built))


def test_a_count_below_nothing_is_not_applied_and_not_skipped():
    def objective(model, batch):
        total, count = _objective(model, batch)
        return total, -count

    with pytest.raises(UserError, match=r"^Step 1 .*counted less than nothing"):
        _fit(_model(), _batches(()), objective=objective)
