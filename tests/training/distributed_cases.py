"""Small models on shuffled data of uneven lengths, trained alike on one device and on many."""

from collections.abc import Callable
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers as keras_layers

from keras_attn.data.seekable import seekable_batches
from keras_attn.layers import LSTM, LengthMask, TransformerDecoderBlock, TransformerEncoderBlock
from keras_attn.models import RNNSearch
from keras_attn.training import WeightAverage, fit

ROWS, VOCABULARY = 13, 11  # in batches of 4 the last has one row, and other replicas none


@dataclass
class Case:
    """A model, its batches and how it is trained."""

    build: Callable[[], keras.Model]
    batches: Callable[[], tf.data.Dataset]
    arguments: dict = field(default_factory=dict)
    optimizer: Callable = lambda: keras.optimizers.Adam(1e-3, epsilon=1e-7)
    average: float | None = None
    policy: str = "float32"


def shuffled(*arrays, batch_size: int = 4, drop_remainder: bool = False) -> tf.data.Dataset:
    """Endless batches of a nest of arrays, another order in every pass, the last one partial."""

    def pass_over_data(number):
        seed = tf.stack([tf.constant(5, tf.int64), number])
        order = tf.random.experimental.stateless_shuffle(tf.range(ROWS), seed)
        return tf.data.Dataset.from_tensor_slices(order).batch(batch_size, drop_remainder)

    def batch(rows):
        return tf.nest.map_structure(lambda array: tf.gather(array, rows), arrays)

    return tf.data.Dataset.counter().flat_map(pass_over_data).map(batch)


def adding_batches(**arguments):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(ROWS, 6, 2)).astype("float32")
    inputs[..., 1] = random.integers(0, 2, (ROWS, 6))
    return shuffled(inputs, (inputs[..., 0] * inputs[..., 1]).sum(1, keepdims=True), **arguments)


def batches_read_in_shares():
    """Rows of a table, in turns 7, 4 and 1 of them: of three workers some have none."""
    random = np.random.default_rng(0)
    table = tf.constant(random.normal(size=(ROWS, 6, 2)), tf.float32)

    def rows(step):
        number = tf.gather([7, 4, 1], step % 3)
        return (tf.range(number) + tf.cast(4 * step, tf.int32)) % ROWS

    def read(rows, batch):
        inputs = tf.gather(table, rows)
        return inputs, tf.reduce_sum(inputs[..., 0], 1, keepdims=True)

    return seekable_batches(rows, read)


def squared_error(model, batch):
    """Per row, whatever the replica has."""
    error = tf.cast(model(batch[0], training=True), tf.float32) - batch[1]
    return tf.reduce_sum(error**2), tf.cast(tf.shape(error)[0], tf.float32)


def adding():
    inputs = keras.Input((6, 2))
    return keras.Model(inputs, keras_layers.Dense(1)(LSTM(5)(inputs)))


def dense():
    inputs = keras.Input((6, 2))
    x = keras_layers.Dense(4, activation="tanh")(keras_layers.Flatten()(inputs))
    return keras.Model(inputs, keras_layers.Dense(1, dtype="float32")(x))


def normalised():
    inputs = keras.Input((6, 2))
    x = keras_layers.Dense(4)(keras_layers.Flatten()(inputs))
    x = keras_layers.BatchNormalization(synchronized=True)(x)
    return keras.Model(inputs, keras_layers.Dense(1, kernel_regularizer="l2")(x))


class AddedLoss(keras_layers.Layer):
    """Adds the sum of the squares of what passes through it."""

    def call(self, inputs):
        self.add_loss(0.1 * tf.reduce_sum(inputs**2))
        return inputs


def penalised():
    """Losses before and behind a layer in which the replicas wait for one another."""
    inputs = keras.Input((6, 2))
    x = keras_layers.Dense(4, activity_regularizer="l2")(keras_layers.Flatten()(inputs))
    x = AddedLoss()(keras_layers.BatchNormalization(synchronized=True)(x))
    x = keras_layers.Dense(3, activation="tanh", activity_regularizer="l1")(x)
    return keras.Model(inputs, keras_layers.Dense(1, kernel_regularizer="l2")(x))


def penalised_tokens():
    """Without batch normalisation, on tokens that are unevenly many in the rows."""
    ids = keras.Input((None,), dtype="int32")
    x = keras_layers.Embedding(VOCABULARY, 4, activity_regularizer="l2")(ids)
    x = AddedLoss()(keras_layers.Dense(4, kernel_regularizer="l2")(x))
    return keras.Model(ids, keras_layers.Dense(VOCABULARY, activity_regularizer="l2")(x))


def plain_tokens():
    ids = keras.Input((None,), dtype="int32")
    x = keras_layers.Dense(4, activation="tanh")(keras_layers.Embedding(VOCABULARY, 4)(ids))
    return keras.Model(ids, keras_layers.Dense(VOCABULARY)(x))


def token_batches():
    """Every third batch is all padding, and the others have weights that differ."""

    def tokens(step, inputs, labels, mask, weights):
        return inputs["target"], labels, mask & (step % 3 != 1), weights

    return pair_batches(sample_weight=True).enumerate().map(lambda i, batch: tokens(i, *batch))


def pair_batches(sample_weight=False):
    random = np.random.default_rng(1)
    source = random.integers(3, VOCABULARY, (ROWS, 7)).astype("int32")
    target = random.integers(3, VOCABULARY, (ROWS, 5)).astype("int32")
    inputs = {
        "source": source,
        "source_lengths": random.integers(1, 8, ROWS).astype("int32"),
        "target": target,
    }
    mask = np.arange(5) < random.integers(1, 6, ROWS)[:, None]
    weights = [random.uniform(0.1, 2.0, ROWS).astype("float32")] if sample_weight else []
    return shuffled(inputs, np.roll(target, 1, 1), mask, *weights)


def rnn_search():
    return RNNSearch(
        VOCABULARY, VOCABULARY, embedding_dim=4, encoder_units=3, decoder_units=4,
        attention_units=4, readout_units=4, tie_embeddings=True, share_embeddings=True,
    )  # fmt: skip


def transformer():
    source = keras.Input((None,), dtype="int32", name="source")
    lengths = keras.Input((), dtype="int32", name="source_lengths")
    target = keras.Input((None,), dtype="int32", name="target")
    embedding = keras_layers.Embedding(VOCABULARY, 8)
    mask = LengthMask()(source, lengths)
    memory = TransformerEncoderBlock(2, 12)(embedding(source), mask=mask)
    x = TransformerDecoderBlock(2, 12)(embedding(target), memory, memory_mask=mask)
    inputs = {"source": source, "source_lengths": lengths, "target": target}
    return keras.Model(inputs, keras_layers.Dense(VOCABULARY)(x))


SGD = {"optimizer": lambda: keras.optimizers.SGD(0.02, momentum=0.9)}
CLIPPED = {"clip_norm": 0.1}

CASES = {
    # Shapes are known: every replica compiles the loop of the LSTM.
    "adding, sgd": Case(
        adding,
        lambda: adding_batches(batch_size=6, drop_remainder=True),
        {"objective": squared_error, **CLIPPED},
        **SGD,
    ),
    "adding, xla": Case(adding, adding_batches, {"objective": squared_error, "jit_compile": True}),
    "normalised, read in shares": Case(
        normalised, batches_read_in_shares, {"objective": squared_error, **CLIPPED}, **SGD
    ),
    "batch normalisation": Case(normalised, adding_batches, {"objective": squared_error}, **SGD),
    "rnnsearch, accumulated": Case(
        rnn_search, pair_batches, {**CLIPPED, "accumulate": 3}, average=0.9
    ),
    "transformer, weighted, many steps a call": Case(
        transformer, lambda: pair_batches(sample_weight=True), {**CLIPPED, "steps_per_call": 7}
    ),
    "dense, float16": Case(
        dense,
        adding_batches,
        {"objective": squared_error, "clip_norm": 0.1},
        lambda: keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=2.0**26, dynamic_growth_steps=5
        ),
        policy="mixed_float16",
    ),
    "penalised": Case(
        penalised, adding_batches, {"objective": squared_error, "added_losses": "sum"}, **SGD
    ),
    "penalised tokens, weighted, some all padding": Case(
        penalised_tokens, token_batches, {**CLIPPED, "added_losses": "sum", "accumulate": 2}
    ),
    "tokens, float16, weighted, some all padding": Case(
        plain_tokens,
        token_batches,
        {"skip_not_finite": True},
        lambda: keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=2.0**8
        ),
        policy="mixed_float16",
    ),
    "dense, bfloat16": Case(
        dense, adding_batches, {"objective": squared_error}, **SGD, policy="mixed_bfloat16"
    ),
}


def train(case: Case, strategy: tf.distribute.Strategy, steps: int = 20) -> dict:
    """Weights, averages and losses after so many steps."""
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy(case.policy)
    with strategy.scope():
        model, optimizer = case.build(), case.optimizer()
        average = WeightAverage(model, case.average) if case.average else None
    keras.config.set_dtype_policy("float32")
    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(
            [logs["loss"], logs["tokens"], logs["gradient_norm"]]
        )
    )
    fit(
        model, case.batches(), steps, optimizer=optimizer, strategy=strategy, average=average,
        callbacks=[watch], **case.arguments,
    )  # fmt: skip
    trained = [*model.variables, *(average.variables if average else [])]
    return {
        **{f"weight {index}": weight.numpy() for index, weight in enumerate(trained)},
        "losses": np.array(losses, np.float32),
    }
