"""What must hold on two replicas, checked in a process of its own; prints the checks that held."""

import traceback
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import TokenLoss
from keras_attn.models import Transformer
from keras_attn.training import WeightAverage, fit, make_strategy, squared_error_objective

DEVICES = ["CPU:0", "CPU:1"]


def _batches(rows=4):
    ids = tf.ones([rows, 50])
    return tf.data.Dataset.from_tensors((ids, tf.zeros([rows, 50]))).repeat()


def _dropout_model():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((50,))
    scale = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    return keras.Model(inputs, scale(keras.layers.Dropout(0.5)(inputs)))


def _output(model, batch):
    """The sum of what dropout left: its gradient tells the kept units of all rows."""
    return tf.reduce_sum(model(batch[0], training=True)), tf.constant(1.0)


def _kept_units(strategy, steps=1, rows=2):
    with strategy.scope():
        model, optimizer = _dropout_model(), keras.optimizers.SGD(1.0)
    fit(model, _batches(rows), steps, optimizer=optimizer, objective=_output, strategy=strategy)
    return model.get_weights()[0].ravel(), model


def check_dropout_differs_between_replicas():
    strategy = make_strategy("mirrored", DEVICES)
    weights, _ = _kept_units(strategy)  # one row each; count 2: w = 1 - (mask_0 + mask_1)
    kept = np.round(1 - weights)
    assert set(kept.tolist()) == {0.0, 1.0, 2.0}, kept


def check_dropout_is_reproducible_and_the_seeds_come_back():
    strategy = make_strategy("mirrored", DEVICES)
    first, model = _kept_units(strategy, steps=3)
    second, _ = _kept_units(strategy, steps=3)
    np.testing.assert_array_equal(first, second)
    state = next(v.value for v in model.variables if v.name == "seed_generator_state")
    one, other = (value.numpy() for value in strategy.experimental_local_results(state))
    np.testing.assert_array_equal(one, other)
    assert one[1] == 3


def check_batch_normalisation_of_own_rows_is_refused():
    strategy = make_strategy("mirrored", DEVICES)
    with strategy.scope():
        inputs = keras.Input((50,))
        model = keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(inputs))
        optimizer = keras.optimizers.SGD()
    _assert_refused("synchronized=True", model, optimizer, strategy)


def check_a_model_made_elsewhere_is_refused():
    model, optimizer = _dropout_model(), keras.optimizers.SGD()
    _assert_refused("scope of the strategy", model, optimizer, make_strategy("mirrored", DEVICES))


def check_more_replicas_than_rows_give_no_nan():
    strategy = make_strategy("mirrored", DEVICES)
    with strategy.scope():
        model, optimizer = _dropout_model(), keras.optimizers.SGD(0.1)

    def mean(model, batch):
        rows = tf.cast(tf.shape(batch[0])[0], tf.float32)
        return tf.reduce_mean(model(batch[0])) * rows, rows  # not a number for no rows

    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
    )
    fit(
        model, _batches(1), 2, optimizer=optimizer, objective=mean, strategy=strategy,
        callbacks=[watch],
    )  # fmt: skip
    assert np.isfinite(losses).all(), losses
    assert np.isfinite(model.get_weights()[0]).all()


def check_the_average_is_the_same_on_all_replicas():
    strategy = make_strategy("mirrored", DEVICES)
    with strategy.scope():
        model, optimizer = _dropout_model(), keras.optimizers.SGD(0.01)
        average = WeightAverage(model, 0.5)
    fit(
        model, _batches(), 3, optimizer=optimizer, objective=_output, strategy=strategy,
        average=average,
    )  # fmt: skip
    values = strategy.experimental_local_results(average.variables[0].value)
    np.testing.assert_array_equal(values[0].numpy(), values[1].numpy())
    assert not np.array_equal(values[0].numpy(), model.get_weights()[0])


def _token_model(strategy, scaled):
    keras.utils.set_random_seed(3)
    keras.config.set_dtype_policy("mixed_float16" if scaled else "float32")
    with strategy.scope():
        ids = keras.Input((3,), dtype="int32")
        x = keras.layers.Dropout(0.3)(keras.layers.Embedding(6, 4)(ids))
        x = keras.layers.BatchNormalization(synchronized=True)(x)
        model, optimizer = keras.Model(ids, keras.layers.Dense(7)(x)), keras.optimizers.Adam(0.01)
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        average = WeightAverage(model)
    keras.config.set_dtype_policy("float32")
    return model, optimizer, average


def check_a_label_that_one_replica_sees_stops_all_before_the_step():
    strategy = make_strategy("mirrored", DEVICES)
    ids = tf.reshape(tf.range(12) % 6, [4, 3])
    for row, scaled, options in ((0, False, {}), (3, True, {"steps_per_call": 4})):
        labels = tf.where(tf.range(4)[:, None] == row, 9, ids)
        batches = tf.data.Dataset.from_tensors((ids, labels, tf.ones([4, 3], "bool"))).repeat()
        model, optimizer, average = _token_model(strategy, scaled)
        variables = *model.variables, *optimizer.variables, *average.variables
        before = [variable.numpy() for variable in variables]
        with pytest.raises(ValueError, match=r"^Step 1 was not .*label=9, vocabulary size=7$"):
            fit(
                model, batches, 3, optimizer=optimizer, strategy=strategy, average=average,
                **options,
            )  # fmt: skip
        for variable, wanted in zip(variables, before, strict=True):
            for value in strategy.experimental_local_results(variable.value):
                np.testing.assert_array_equal(value.numpy(), wanted)


def _rows_model(strategy):
    keras.utils.set_random_seed(3)
    with strategy.scope():
        inputs = keras.Input((3,))
        x = keras.layers.BatchNormalization(synchronized=True)(inputs)
        model, optimizer = keras.Model(inputs, keras.layers.Dense(1)(x)), keras.optimizers.Adam(0.1)
    return model, optimizer


def _numbers(bad_steps=()):
    """Rows of which the last, that of the last replica, is not finite in some steps."""

    def batch(step):
        x = tf.random.stateless_normal([5, 3], [1, step])
        bad = tf.reduce_any(tf.equal(step, tf.constant([-1, *bad_steps])))
        return tf.where(bad & (tf.range(5)[:, None] == 4), np.nan, x), x[:, :1]

    return tf.data.Dataset.counter(dtype=tf.int32).map(batch)


def check_a_step_that_is_not_finite_on_one_replica_is_skipped_by_all():
    strategy = make_strategy("mirrored", DEVICES)
    objective, weights = squared_error_objective(), []
    good = _numbers().enumerate().filter(lambda i, _: (i != 2) & (i != 3)).map(lambda i, x: x)
    for batches, steps in ((_numbers([2, 3]), 8), (good, 6)):
        model, optimizer = _rows_model(strategy)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fit(
                model, batches, steps, optimizer=optimizer, objective=objective, strategy=strategy,
                skip_not_finite=True, steps_per_call=5,
            )  # fmt: skip
        told = [each for each in told if "of the steps" in str(each.message)]
        assert len(told) == (steps == 8), told
        weights.append([*model.get_weights(), optimizer.iterations.numpy()])
    for got, expected in zip(*weights, strict=True):
        np.testing.assert_array_equal(got, expected)
        assert np.isfinite(got).all()


def check_validation_is_that_of_one_device_and_early_stopping_decides_by_it():
    losses = {}
    for name in ("none", "mirrored"):
        strategy = make_strategy(name, DEVICES if name == "mirrored" else None)
        model, optimizer = _rows_model(strategy)
        history = keras.callbacks.History()
        early = keras.callbacks.EarlyStopping("val_loss", min_delta=9.0, patience=2)
        reached = fit(
            model, _numbers(), 30, optimizer=optimizer, objective=squared_error_objective(),
            strategy=strategy, callbacks=[history, early], steps_per_epoch=3,
            validation_data=_numbers().take(2).unbatch().batch(3),  # the last has one row
        )  # fmt: skip
        assert reached == 9, reached
        losses[name] = history.history["val_loss"]
    np.testing.assert_allclose(losses["mirrored"], losses["none"], rtol=1e-4)


def check_a_model_that_is_not_built_is_built_on_all_replicas():
    strategy = make_strategy("mirrored", DEVICES)
    with strategy.scope():
        model = keras.Sequential([keras.Sequential([keras.layers.Dense(2)]), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.1)
    fit(
        model, _numbers(), 2, optimizer=optimizer, objective=squared_error_objective(),
        strategy=strategy,
    )  # fmt: skip
    assert optimizer.iterations.numpy() == 2
    for variable in model.trainable_variables:
        one, other = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def check_data_that_end_in_a_call_of_many_steps_are_a_sentence():
    strategy = make_strategy("mirrored", DEVICES)
    model, optimizer = _rows_model(strategy)
    with pytest.raises(ValueError, match=r"^The data ended before step 7: .*steps=9"):
        fit(
            model, _numbers().take(6), 9, optimizer=optimizer, strategy=strategy,
            objective=squared_error_objective(), steps_per_call=4,
        )  # fmt: skip
    assert optimizer.iterations.numpy() == 6


def check_fit_of_keras_is_refused_for_a_mean_over_tokens():
    rows = (tf.ones([4, 3], tf.int32), tf.ones([4, 3], tf.int32))
    strategy = make_strategy("mirrored", DEVICES)
    with strategy.scope():
        plain = keras.Sequential([keras.layers.Embedding(5, 5)])
        own = Transformer(
            5, 5, dim=4, num_heads=1, intermediate_dim=4, encoder_layers=1, decoder_layers=1
        )
        plain.compile("sgd", loss=TokenLoss())
        own.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = {"source": rows[0], "source_lengths": rows[0][:, 0], "target": rows[0]}
    for model, data in ((plain, rows), (own, (inputs, rows[1]))):
        with pytest.raises(
            ValueError, match=r"training\.fit\(..., strategy=.*Received: 2 replicas"
        ):
            model.fit(*data, verbose=0)


def _assert_refused(words, model, optimizer, strategy):
    with pytest.raises(ValueError, match=f"{words}.*Received:"):
        fit(model, _batches(), 1, optimizer=optimizer, objective=_output, strategy=strategy)


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                print(name, flush=True)
            except Exception:
                traceback.print_exc()


if __name__ == "__main__":
    main()
