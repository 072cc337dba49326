import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import token_loss
from keras_attn.training import fit, load_checkpoint, save_checkpoint


def _model():
    keras.utils.set_random_seed(3)
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(6, 5)(ids)
    x = keras.layers.Dropout(0.3)(x)
    return keras.Model(ids, keras.layers.Dense(6)(x))


def _batches():
    """Endless batches with uneven padding, another one at every step."""

    def batch(step):
        ids = tf.random.stateless_uniform([4, 3], [1, step], 0, 6, tf.int32)
        lengths = tf.random.stateless_uniform([4], [2, step], 1, 4, tf.int32)
        return ids, (ids + 1) % 6, tf.sequence_mask(lengths, 3)

    return tf.data.Dataset.counter(dtype=tf.int32).map(batch)


def _weights(model):
    return [weight.numpy() for weight in model.weights]


def test_training_learns():
    model, losses = _model(), []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
    )
    fit(model, _batches(), 150, optimizer=keras.optimizers.Adam(0.05), callbacks=[watch])
    assert len(losses) == 150
    assert np.mean(losses[:5]) > 1.5
    assert np.mean(losses[-5:]) < 0.5


def test_one_step_is_the_clipped_gradient_of_the_mean_over_real_tokens():
    model = keras.Sequential([keras.layers.Embedding(6, 6)])
    model.build((None, None))
    batch = next(iter(_batches()))
    before = model.weights[0].numpy()
    with tf.GradientTape() as tape:
        total, count = token_loss(batch[1], model(batch[0]), batch[2])
        loss = total / count
    gradient = tf.convert_to_tensor(tape.gradient(loss, model.weights[0].value)).numpy()
    norm = np.sqrt((gradient**2).sum())
    clip = norm / 2
    fit(model, _batches(), 1, optimizer=keras.optimizers.SGD(0.5), clip_norm=clip)
    expected = before - 0.5 * gradient * clip / norm
    np.testing.assert_allclose(model.weights[0].numpy(), expected, atol=1e-6)


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path):
    whole, optimizer = _model(), keras.optimizers.Adam(0.05)
    fit(whole, _batches(), 12, optimizer=optimizer)

    first, optimizer = _model(), keras.optimizers.Adam(0.05)
    fit(first, _batches(), 5, optimizer=optimizer)
    save_checkpoint(tmp_path / "last.npz", first, optimizer, {"step": 5})

    second, optimizer = _model(), keras.optimizers.Adam(0.05)
    optimizer.build(second.trainable_variables)
    progress = load_checkpoint(tmp_path / "last.npz", second, optimizer)
    fit(second, _batches(), 12, optimizer=optimizer, initial_step=int(progress["step"]))
    for got, expected in zip(_weights(second), _weights(whole), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_callback_can_stop_training():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    assert fit(_model(), _batches(), 9, optimizer=keras.optimizers.SGD(), callbacks=[Stop()]) == 3


def test_a_batch_without_a_real_token_moves_nothing():
    model = _model()
    before = _weights(model)
    batches = _batches().map(lambda ids, labels, mask: (ids, labels, tf.zeros_like(mask)))
    fit(model, batches, 2, optimizer=keras.optimizers.SGD(1.0))
    for got, expected in zip(_weights(model), before, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float32"])
def test_precision_policies_train(policy):
    keras.config.set_dtype_policy(policy)
    try:
        model, losses = _model(), []
        watch = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
        )
        fit(model, _batches(), 60, optimizer=keras.optimizers.Adam(0.05), callbacks=[watch])
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_logs_hold_the_norm_of_the_gradient_before_it_is_clipped_or_scaled():
    logs = {}

    def keep(name):
        def on_train_batch_end(step, at_end):
            logs.setdefault(name, []).append(at_end["gradient_norm"])

        return [keras.callbacks.LambdaCallback(on_train_batch_end=on_train_batch_end)]

    def sgd():
        return keras.optimizers.SGD(0.0)

    model = _model()
    model.layers[2].rate = 0.0
    scaled = keras.optimizers.LossScaleOptimizer(sgd(), initial_scale=8.0)
    fit(model, _batches(), 4, optimizer=sgd(), callbacks=keep("plain"))
    fit(model, _batches(), 4, optimizer=sgd(), callbacks=keep("clipped"), clip_norm=1e-3)
    fit(model, _batches(), 4, optimizer=scaled, callbacks=keep("scaled"))
    fit(model, _batches(), 4, optimizer=sgd(), callbacks=keep("two a call"), steps_per_call=2)
    ids, labels, mask = next(iter(_batches()))
    with tf.GradientTape() as tape:
        total, count = token_loss(labels, model(ids), mask)
        loss = total / count
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    norm = tf.linalg.global_norm([tf.convert_to_tensor(gradient) for gradient in gradients])
    np.testing.assert_allclose(logs["plain"][0], norm, rtol=1e-5)
    for name in ("clipped", "scaled"):
        np.testing.assert_allclose(logs[name], logs["plain"], rtol=1e-5)
    np.testing.assert_allclose(
        logs["two a call"], np.reshape(logs["plain"], [2, 2]).mean(1), rtol=1e-5
    )
