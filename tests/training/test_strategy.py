import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import Epochs, WeightAverage, fit, make_strategy
from keras_attn.training.shares import share


def test_an_unknown_strategy_and_devices_that_are_not_asked_for_are_refused():
    with pytest.raises(ValueError, match=r"none, mirrored.*Received: name='horovod'"):
        make_strategy("horovod")
    with pytest.raises(ValueError, match=r"Received: devices=\['CPU:0'\]"):
        make_strategy("tpu", ["CPU:0"])


@pytest.mark.parametrize(
    "config",
    [
        None,
        "{",
        "[]",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_a_cluster_that_is_not_described_is_one_sentence(config, monkeypatch):
    if config is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UserError, match="TF_CONFIG, such as") as caught:
        make_strategy("multi_worker")
    assert (config or "not set") in str(caught.value)


def test_no_tpu_is_one_sentence():
    with pytest.raises(UserError, match="There is no TPU 'local' here") as caught:
        make_strategy("tpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [0, 1, 5, 6])
@pytest.mark.parametrize("is_static", [True, False])
def test_shares_are_the_batch_dealt_out_evenly(rows, is_static):
    batch = {"x": tf.range(rows), "y": tf.ones([rows, 2]), "z": tf.constant(3.0)}

    def spec_of(x):
        return tf.TensorSpec(x.shape if is_static else [None] * x.shape.rank, x.dtype)

    spec = tf.nest.map_structure(spec_of, batch)
    take = tf.function(lambda batch, index: share(batch, index, 3))
    concrete = take.get_concrete_function(spec, tf.TensorSpec([], tf.int32))
    shares = [take(batch, tf.constant(index)) for index in range(3)]
    assert concrete.structured_outputs["z"].shape == ()
    sizes = [len(part["x"]) for part in shares]
    assert max(sizes) - min(sizes) <= 1
    for name in ("x", "y"):
        np.testing.assert_array_equal(tf.concat([part[name] for part in shares], 0), batch[name])


def _regression():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((3,))
    return keras.Model(inputs, keras.layers.Dense(1, kernel_regularizer="l2")(inputs))


def _batches():
    x = tf.random.stateless_normal([10, 3], [1, 2])
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4).repeat()


def _squared_error(model, batch):
    error = model(batch[0], training=True) - batch[1]
    return tf.reduce_sum(error**2), tf.cast(tf.shape(error)[0], tf.float32)


def _trained(steps=12, **arguments):
    model = _regression()
    arguments.setdefault("optimizer", keras.optimizers.Adam(0.01))
    fit(model, _batches(), steps, objective=_squared_error, **arguments)
    return model.get_weights()


@pytest.mark.parametrize(
    "arguments",
    [{"accumulate": 3}, {"steps_per_call": 5}, {"jit_compile": True}, {"accumulate": 7}],
    ids=str,
)
def test_how_a_step_is_worked_off_changes_nothing(arguments):
    for got, expected in zip(_trained(**arguments), _trained(), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_regulariser_is_trained_on():
    model, batch = _regression(), next(iter(_batches()))
    before = [weight.numpy() for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(batch[0]) - batch[1]) ** 2) + sum(model.losses)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    fit(model, _batches(), 1, objective=_squared_error, optimizer=keras.optimizers.SGD(1.0))
    for weight, old, gradient in zip(model.trainable_weights, before, gradients, strict=True):
        np.testing.assert_allclose(weight.numpy(), old - gradient, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (lambda: keras.optimizers.SGD(gradient_accumulation_steps=2), "accumulate="),
        (lambda: keras.optimizers.SGD(use_ema=True), "WeightAverage"),
    ],
)
def test_what_an_optimiser_cannot_do_on_replicas_is_refused(optimizer, words):
    with pytest.raises(ValueError, match=words):
        _trained(1, optimizer=optimizer())


def test_float16_without_a_loss_scale_is_refused():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="LossScaleOptimizer"):
            _trained(1)
    finally:
        keras.config.set_dtype_policy("float32")


def test_the_average_follows_the_weights_and_is_lent_for_evaluation():
    model = _regression()
    average, expected, weights = WeightAverage(model, 0.9), [], []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: weights.append(model.get_weights())
    )
    expected = model.get_weights()
    fit(
        model, _batches(), 5, objective=_squared_error, optimizer=keras.optimizers.SGD(0.1),
        average=average, callbacks=[watch],
    )  # fmt: skip
    for step, now in enumerate(weights, start=1):
        decay = min(0.9, (1 + step) / (10 + step))
        expected = [decay * a + (1 - decay) * w for a, w in zip(expected, now, strict=True)]
    with average.applied():
        for got, wanted in zip(model.get_weights(), expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-6)
    for got, wanted in zip(model.get_weights(), weights[-1], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_epochs_end_early_with_the_mean_over_their_tokens():
    seen = []
    stopping = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=10.0)
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append((epoch, logs["loss"], logs["val"]))
    )
    losses = []
    batches = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append((logs["loss"], logs["tokens"]))
    )
    epochs = Epochs(3, [stopping, watch], validate=lambda: {"val": 1.0})
    reached = fit(
        _regression(), _batches(), 30, objective=_squared_error,
        optimizer=keras.optimizers.SGD(0.01), callbacks=[batches, epochs],
    )  # fmt: skip
    assert reached == 6
    assert [epoch for epoch, _, _ in seen] == [0, 1]
    first = losses[:3]  # batches of 4, 4 and 2 rows
    mean = sum(loss * tokens for loss, tokens in first) / sum(tokens for _, tokens in first)
    np.testing.assert_allclose(seen[0][1], mean, rtol=1e-6)
