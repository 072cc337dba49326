"""A training run with everything that has a state, killed from outside or in the middle of a write.

    python survival_program.py DIRECTORY STRATEGY STEPS [reference] [die-writing=N]

Prints `step N` after every step; writes `final.npz` when all steps are done. With `reference` it
trains into DIRECTORY/reference first, without an interruption.
"""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_attn.training import (
    Budget,
    Epochs,
    KeepCheckpoints,
    Pace,
    RunDirectory,
    StopOnSignal,
    WeightAverage,
    Workers,
    fit,
    make_strategy,
    resume,
    warmed_up_then_linear,
)


def batches():
    def batch(step):
        ids = tf.random.stateless_uniform([5, 3], [1, step], 0, 6, tf.int32)
        lengths = tf.random.stateless_uniform([5], [2, step], 0, 4, tf.int32)
        return ids, (ids + 1) % 6, tf.sequence_mask(lengths, 3)

    return tf.data.Dataset.counter(dtype=tf.int32).map(batch)


def train(run: RunDirectory, strategy, steps: int) -> None:
    workers = Workers(strategy)
    with workers.together(), strategy.scope():
        keras.utils.set_random_seed(3)
        keras.config.set_dtype_policy("mixed_float16")
        ids = keras.Input((None,), dtype="int32")
        x = keras.layers.Dropout(0.3)(keras.layers.Embedding(6, 5)(ids))
        model = keras.Model(ids, keras.layers.Dense(6)(x))
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(), dynamic_growth_steps=4
        )
        optimizer.build(model.trainable_variables)
        average = WeightAverage(model, 0.9)
    progress = resume(run, model, optimizer, average=average, workers=workers, report=run.log)
    step = int(progress.get("step", 0))
    print(f"from {step}", flush=True)
    pace = Pace(Budget(steps=steps), warmed_up_then_linear(0.01, 10))
    stopping = keras.callbacks.EarlyStopping(
        "loss", patience=2, min_delta=0.02, restore_best_weights=True
    )
    epochs = Epochs(6, [stopping], state=progress)
    keeping = KeepCheckpoints(
        run,
        pace,
        validate=lambda: {"weight": float(np.abs(model.get_weights()[0]).sum())},
        validations=2,
        best=progress.get("best", -np.inf),
        report=run.log,
        every_steps=4,
        average=average,
        epochs=epochs,
    )
    tell = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: print(f"step {step + 1}", flush=True)
    )
    interruption = StopOnSignal()
    last = keeping if workers.is_chief else epochs
    reached = fit(
        model, batches(), steps, optimizer=optimizer, clip_norm=0.5, initial_step=step,
        callbacks=[interruption, pace, last, tell], strategy=strategy, average=average,
    )  # fmt: skip
    if not workers.any(interruption.received is not None):
        print(f"ended at {reached}", flush=True)
        np.savez(run.path / f"final{workers.index}.npz", *(v.numpy() for v in model.variables))


def die_writing(number: int) -> None:
    """Make the write of that number stop half way, with SIGKILL."""
    save, written = np.savez, [0]

    def half_of_it(file, **arrays):
        written[0] += 1
        save(file, **arrays)
        if written[0] == number:
            file.truncate(file.tell() // 2)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    np.savez = half_of_it


def main(directory: str, name: str, steps: str, *options: str) -> None:
    devices = None
    if name == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        devices = ["CPU:0", "CPU:1"]
    strategy = make_strategy(name, devices)
    if "reference" in options:
        train(RunDirectory(Path(directory) / "reference"), strategy, int(steps))
        print("reference done", flush=True)
    for option in options:
        if option.startswith("die-writing="):
            die_writing(int(option.split("=")[1]))
    train(RunDirectory(directory), strategy, int(steps))


if __name__ == "__main__":
    main(*sys.argv[1:])
