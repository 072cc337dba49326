"""One of two workers that differ in one thing after the other; prints what each difference gave.

python agreement_program.py DIRECTORY
"""

import json
import sys
from pathlib import Path
from types import MappingProxyType

import keras
import numpy as np
import tensorflow as tf

from keras_attn.data.seekable import SeekableBatches, seekable_batches
from keras_attn.errors import UserError
from keras_attn.training import (
    Budget,
    KeepCheckpoints,
    Pace,
    RunDirectory,
    Workers,
    fit,
    make_strategy,
    resume,
    warmed_up_then_linear,
    workers,
)

workers._SECONDS_TO_READ = 0.1
STRATEGY = make_strategy("multi_worker")
INDEX = Workers(STRATEGY).index
DIRECTORY = Path(sys.argv[1])


def _built(units=2, rate=0.1, norm=False, optimizer=None):
    keras.utils.set_random_seed(3)
    with STRATEGY.scope():
        inputs = keras.Input((3,))
        x = keras.layers.Dropout(rate)(keras.layers.Dense(units)(inputs))
        if norm:
            x = keras.layers.BatchNormalization(synchronized=True)(x)
        model = keras.Model(inputs, keras.layers.Dense(1)(x))
        return model, (optimizer or keras.optimizers.SGD)(0.1)


def _whole(rows=4, seed=1):
    x = tf.random.stateless_normal([8, 3], [seed, 2])
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(rows).repeat()


def _seekable(rows=5, seed=1):
    def batch(step):
        x = tf.random.stateless_normal([rows, 3], [seed, step])
        return x, x[:, :1]

    return seekable_batches(batch, identity={"rows": rows, "seed": seed})


def _squared_error(model, batch):
    error = model(batch[0], training=True) - batch[1]
    return tf.reduce_sum(error**2), tf.cast(tf.shape(error)[0], tf.float32)


def _fit(built=None, data=None, steps=2, **arguments):
    model, optimizer = built or _built()
    data = data or _whole()
    objective = arguments.pop("objective", _squared_error)
    fit(
        model, data, steps, optimizer=optimizer, objective=objective, strategy=STRATEGY, **arguments
    )
    return model


class _Source:
    """Of batches of four rows; the second worker reads those of the first."""

    identity = MappingProxyType({})

    def parts(self, step, index, number):
        del step, index, number
        part = tf.ones([2, 3]), tf.ones([2, 1])
        whole = tf.constant(4, tf.int64), tf.constant(0, tf.int64)
        return tf.data.Dataset.from_tensors((part, *whole)).repeat()


def case_alike():
    model = _fit(_built(norm=True), _seekable(), steps=7, steps_per_call=3)
    return float(np.sum(model.get_weights()[0]))


def case_rows():
    _fit(data=_whole(4 + 2 * INDEX))


def case_rows_in_calls_of_many_steps():
    _fit(data=_whole(4 + 2 * INDEX), steps_per_call=4)


def case_data():
    _fit(data=_whole(seed=1 + INDEX))


def case_place_in_the_order():
    _fit(data=_whole(4).skip(INDEX))


def case_shares():
    batches = SeekableBatches(_Source())
    if INDEX:
        batches.parts = lambda step, index, number: SeekableBatches.parts(batches, step, 0, number)
    _fit(data=batches)


def case_seed_of_seekable_batches():
    _fit(data=_seekable(seed=1 + INDEX))


def case_kind_of_data():
    _fit(data=_seekable(4) if INDEX else _whole(4))


def case_units():
    _built(units=2 + INDEX)


def case_layers():
    _fit(_built(rate=0.1 + 0.2 * INDEX))


def case_optimizer():
    _fit(_built(optimizer=[keras.optimizers.SGD, keras.optimizers.Adam][INDEX]))


def case_settings():
    def other(model, batch):
        return _squared_error(model, batch)

    objective = other if INDEX else _squared_error
    _fit(steps=4 + INDEX, clip_norm=1.0 + INDEX, accumulate=1 + INDEX, objective=objective)


def case_weights_before_the_first_step():
    built = _built()
    if INDEX:
        built[0].weights[0].assign_add(tf.ones([3, 2]))
    _fit(built)


def case_weights_at_a_checkpoint():
    built, steps = _built(), []
    run, pace = RunDirectory(DIRECTORY), Pace(Budget(steps=50), warmed_up_then_linear(0.01, 10))
    keeping = KeepCheckpoints(run, pace, lambda: {"score": 0.0}, 1, report=str, every_steps=4)

    def after(batch, logs):
        steps.append(batch + 1)
        if INDEX and batch + 1 == 2:
            built[0].weights[0].assign_add(tf.ones([3, 2]))

    watch = keras.callbacks.LambdaCallback(on_train_batch_end=after)
    try:
        _fit(built, steps=50, callbacks=[watch, pace, *([] if INDEX else [keeping])])
    except UserError as error:
        raise UserError(f"after step {steps[-1]}: {error}") from error


def case_models_of_a_run_that_goes_on():
    model, optimizer = _built()
    with STRATEGY.scope():
        optimizer.build(model.trainable_variables)
        extra = [keras.layers.Dense(2)] if INDEX else []
    for layer in extra:  # made where no other worker could see it
        layer.build((3,))
        model._layers.append(layer)
    resume(RunDirectory(DIRECTORY), model, optimizer, workers=Workers(STRATEGY), report=str)


def main():
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            try:
                found = case()
            except UserError as error:
                found = str(error)
            print(json.dumps([name.removeprefix("case_"), found]), flush=True)


if __name__ == "__main__":
    main()
