"""What a Keras user does first with a model: `compile`, `fit`, `clone_model`."""

import copy
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.losses import TokenLoss, token_loss
from keras_attn.models import RNNSearch, Transformer
from keras_attn.training import fit, token_objective

ROWS, SOURCE, TARGET, VOCABULARY = 12, 4, 6, 9
BATCH = 4
START, END = 1, 2

MODELS: dict[str, Callable[[], keras.Model]] = {
    "RNNSearch": lambda: RNNSearch(
        VOCABULARY, VOCABULARY, embedding_dim=5, encoder_units=3, decoder_units=4,
        attention_units=3, readout_units=4,
    ),
    "Transformer": lambda: Transformer(
        VOCABULARY, VOCABULARY, dim=6, num_heads=2, intermediate_dim=7, encoder_layers=1,
        decoder_layers=1, max_length=5, dropout=0.0,
    ),
}  # fmt: skip
"""Every model that predicts tokens of an input `target`, small and without dropout."""


@pytest.fixture(params=MODELS)
def make(request):
    def make():
        keras.utils.set_random_seed(5)
        return MODELS[request.param]()

    return make


def _data(seed=0):
    """Inputs and padded labels; a padded target holds its end token one place behind its labels."""
    generator = np.random.default_rng(seed)
    lengths = generator.permutation(np.resize([TARGET, 1, 3, TARGET - 1], ROWS))
    place = np.arange(TARGET)
    labels = generator.integers(3, 6, (ROWS, TARGET))  # few ids: tokens occur again and again
    labels = np.where(place == lengths[:, None] - 1, END, labels)
    labels = np.where(place < lengths[:, None], labels, 0).astype("int32")
    inputs = {
        "source": generator.integers(3, VOCABULARY, (ROWS, SOURCE)).astype("int32"),
        "source_lengths": generator.integers(1, SOURCE + 1, ROWS).astype("int32"),
        "target": np.c_[np.full((ROWS, 1), START, "int32"), labels[:, :-1]],
    }
    return inputs, labels


def _batches(inputs, labels, *weights):
    rows = (inputs, labels, labels != 0, *weights)
    return tf.data.Dataset.from_tensor_slices(rows).batch(BATCH).repeat()


class _Losses(keras.callbacks.Callback):
    """The loss of every step; Keras logs the mean since the epoch began."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_epoch_begin(self, epoch, logs=None):
        self._sum = 0.0

    def on_train_batch_end(self, batch, logs=None):
        total = logs["loss"] * (batch + 1)
        self.steps.append(total - self._sum)
        self._sum = total


def _trained_here(model, steps, batches):
    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
    )
    fit(model, batches, steps, optimizer=_adam(), clip_norm=0.1, callbacks=[watch])
    return losses


def _adam(**options):
    """Its large epsilon leaves gradients of 0, such as a key's bias has, at 0 but for rounding."""
    return keras.optimizers.Adam(0.01, epsilon=1e-4, **options)


def _require_equal_weights(one, other):
    for got, expected in zip(one.weights, other.weights, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-5, err_msg=got.path)


def test_fit_of_keras_takes_the_steps_of_training_fit(make):
    (inputs, labels), watch = _data(), _Losses()
    model, expected = make(), make()
    model.compile(_adam(global_clipnorm=0.1), loss=TokenLoss())
    model.fit(
        inputs, labels, batch_size=BATCH, epochs=4, shuffle=False, verbose=0, callbacks=[watch]
    )
    losses = _trained_here(expected, 12, _batches(inputs, labels))
    np.testing.assert_allclose(watch.steps, losses, atol=1e-5)
    _require_equal_weights(model, expected)


@pytest.mark.parametrize("shape", [(ROWS,), (ROWS, TARGET)], ids=["rows", "tokens"])
def test_sample_weights_are_the_weights_of_a_batch_of_training_fit(make, shape):
    (inputs, labels), model = _data(), make()
    weights = np.random.default_rng(1).uniform(0.2, 3.0, shape).astype("float32")
    model.compile(_adam(), loss=TokenLoss(0.1), weighted_metrics=["accuracy"], run_eagerly=True)
    found = model.evaluate(
        inputs, labels, batch_size=ROWS, verbose=0, sample_weight=weights, return_dict=True
    )
    total, count = token_objective(0.1)(model, (inputs, labels, labels != 0, weights))
    assert found["loss"] == pytest.approx(float(total / count), abs=1e-5)
    tokens = np.where(labels != 0, weights.reshape(ROWS, -1), 0)
    right = np.argmax(model(inputs), -1) == labels
    assert found["accuracy"] == pytest.approx((right * tokens).sum() / tokens.sum(), abs=1e-5)


def test_xla_and_several_steps_in_one_call_are_the_eager_steps(make):
    inputs, labels = _data()
    found = []
    for how in ({"run_eagerly": True}, {"jit_compile": True, "steps_per_execution": 3}):
        model = make()
        model.compile(_adam(global_clipnorm=0.1), loss=TokenLoss(), **how)
        model.fit(inputs, labels, batch_size=BATCH, shuffle=False, verbose=0)
        found.append(model)
    _require_equal_weights(*found)


def test_a_pipeline_of_wide_integers_trains_like_arrays(make):
    inputs, labels = _data()
    wide, wide_labels = {name: np.int64(ids) for name, ids in inputs.items()}, np.int64(labels)
    found = []
    for data in ((inputs, labels), (wide, wide_labels)):
        model = make()
        model.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
        model.fit(tf.data.Dataset.from_tensor_slices(data).batch(BATCH), shuffle=False, verbose=0)
        found.append(model)
    _require_equal_weights(*found)


def test_losses_and_metrics_of_keras_see_the_real_tokens_alone(make):
    (inputs, labels), model = _data(), make()
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    token_mean = keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="token_mean")
    metrics = ["accuracy", token_mean]
    model.compile(_adam(), loss=cross_entropy, metrics=metrics, run_eagerly=True)
    found = model.evaluate(inputs, labels, batch_size=ROWS, verbose=0, return_dict=True)
    logits = model(inputs)
    total, count = token_loss(labels, logits, labels != 0)
    assert found["loss"] == pytest.approx(float(total / count), abs=1e-5)
    right = (np.argmax(logits, -1) == labels)[labels != 0]
    assert found["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    uneven = model.evaluate(inputs, labels, batch_size=5, verbose=0, return_dict=True)
    assert uneven["token_mean"] == pytest.approx(float(total / count), abs=1e-5)


def test_padding_of_the_target_alone_is_enough(make):
    """Labels that are made by turning the target round have no padding of their own."""
    (inputs, labels), model = _data(), make()
    inputs["target"] = np.where(labels != 0, inputs["target"], 0)
    unpadded = np.where(labels != 0, labels, START)
    model.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
    found = model.evaluate(inputs, unpadded, batch_size=ROWS, verbose=0)
    total, count = token_loss(labels, model(inputs), labels != 0)
    assert found == pytest.approx(float(total / count), abs=1e-5)


def test_padding_moves_no_output_and_a_zero_before_the_end_is_a_token(make):
    (inputs, labels), model = _data(), make()
    assert getattr(model(inputs), "_keras_mask", None) is None
    zero_first = {**inputs, "target": np.c_[inputs["target"][:, :1] * 0, inputs["target"][:, 1:]]}
    zero_first["target"][:, 1] = np.maximum(zero_first["target"][:, 1], START)
    model.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
    found = model.evaluate(zero_first, labels, batch_size=ROWS, verbose=0)
    total, count = token_loss(labels, model(zero_first), labels != 0)
    assert found == pytest.approx(float(total / count), abs=1e-5)


def test_a_compiled_model_stops_early_and_comes_back_whole(make, tmp_path):
    (inputs, labels), (others, other_labels) = _data(), _data(seed=2)
    model, path = make(), tmp_path / "best.keras"
    model.compile(_adam(), loss=TokenLoss(label_smoothing=0.1), run_eagerly=True)
    history = model.fit(
        inputs, labels, batch_size=BATCH, epochs=9, verbose=0,
        validation_data=(others, other_labels),
        callbacks=[
            keras.callbacks.EarlyStopping(min_delta=10.0, patience=1),
            keras.callbacks.ModelCheckpoint(path, save_best_only=True),
        ],
    )  # fmt: skip
    assert len(history.history["val_loss"]) == 2  # nothing gains 10
    reloaded = keras.models.load_model(path)
    assert reloaded.loss.label_smoothing == 0.1
    best = int(np.argmin(history.history["val_loss"]))
    assert int(reloaded.optimizer.iterations) == 3 * (best + 1)
    found = reloaded.evaluate(others, other_labels, batch_size=BATCH, verbose=0)
    assert found == pytest.approx(history.history["val_loss"][best], abs=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "crossentropy",
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(),
    ],
    ids=["string", "short-string", "function", "object"],
)
def test_a_loss_of_probabilities_is_refused(make, loss):
    (inputs, labels), model = _data(), make()
    model.compile(_adam(), loss=loss, run_eagerly=True)
    with pytest.raises(ValueError, match=r"predicts logits.*TokenLoss\(\).*Received: loss="):
        model.train_on_batch(inputs, labels)


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_weights_of_classes_are_refused(make, method):
    (inputs, labels), model = _data(), make()
    model.compile(_adam(), loss=TokenLoss())
    with pytest.raises(ValueError, match=r"sample_weight \(B, T\).*Received: class_weight=\{3: 2"):
        getattr(model, method)(inputs, labels, class_weight={3: 2.0})


@pytest.mark.parametrize("how", ["plain", "function", "inputs"])
def test_clone_model_says_how_to_make_another(make, how):
    model = make()
    options = {
        "plain": {},
        "function": {"clone_function": lambda layer: layer},
        "inputs": {"input_tensors": model.input},
    }[how]
    with pytest.raises(ValueError, match=r"from_config\(model.get_config\(\)\).*Received: model="):
        keras.models.clone_model(model, **options)


def test_a_model_inside_a_users_model_is_cloned_whole(make):
    (inputs, _), model = _data(), make()
    ids = {
        name: keras.Input(each.shape[1:], dtype="int32", name=name) for name, each in inputs.items()
    }
    outer = keras.Model(ids, keras.layers.Rescaling(2.0)(model(ids)))
    inner = keras.models.clone_model(outer).get_layer(model.name)
    assert inner is not model
    assert type(inner) is type(model)
    assert inner.get_config() == model.get_config()
    copied = copy.deepcopy(model)
    np.testing.assert_array_equal(copied(inputs), model(inputs))
    assert type(copied) is type(model)


def test_the_graph_of_a_model_alone_is_cloned_as_a_plain_model(make):
    (inputs, labels), model = _data(), make()
    plain = keras.models.clone_model(keras.Model(model.input, model.output))
    plain.set_weights(model.get_weights())
    np.testing.assert_allclose(plain(inputs), model(inputs), atol=1e-6)
    losses = []
    for each in (plain, model):
        each.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
        losses.append(each.evaluate(inputs, labels, batch_size=ROWS, verbose=0))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)  # by the padding of the labels


def test_a_frozen_model_fits_without_moving(make):
    (inputs, labels), model = _data(), make()
    model.trainable = False
    before = model.get_weights()
    model.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
    model.fit(inputs, labels, verbose=0)
    for got, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("label", [VOCABULARY, -3])
def test_a_label_outside_the_vocabulary_stops_fit_before_its_step_under_xla(label):
    (inputs, labels), model = _data(), MODELS["Transformer"]()
    labels[1, 0] = label
    model.compile(_adam(), loss=TokenLoss(), jit_compile=True)
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"not finite: its step was not applied.*size=9"):
        model.fit(inputs, labels, batch_size=ROWS, verbose=0)
    for weight, wanted in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert not any(np.any(v.numpy()) for v in model.optimizer.variables[2:])


def test_labels_of_another_length_than_the_target_are_refused(make):
    (inputs, labels), model = _data(), make()
    model.compile(_adam(), loss=TokenLoss(), run_eagerly=True)
    with pytest.raises(
        ValueError, match=r"Received: labels.shape=\(12, 5\), target.shape=\(12, 6\)"
    ):
        model.train_on_batch(inputs, labels[:, :-1])
