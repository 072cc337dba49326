"""What the training loop, replicas, checkpoints and a second process cost.

    python benchmarks/distribution.py

- one device: `training.fit` against `keras.Model.fit`, the same model, batches and optimiser
- mirrored: two logical CPU devices against one device, the same global batches; on one processor
  there is nothing to gain, the ratio is what the exchange costs
- checkpoints: one every 100 steps against none
- weak scaling: two processes with twice the batch against one, each with half of the cores

Every contender runs in processes of its own, in turn, `--rounds` times; the table has medians of
steps a second after the first `--warmup` steps.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ONE, TWO = "one device", "mirrored on two logical devices"
KERAS, KEPT = "model.fit", "checkpoint every 100 steps"
WORKER, WORKERS = "one process, half of the cores", "two processes, half of the cores each"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        print(json.dumps(_steps_a_second(arguments.contender, arguments)))
        return
    speeds = {name: [] for name in (KERAS, ONE, TWO, KEPT, WORKER, WORKERS)}
    for _ in range(arguments.rounds):
        for name, found in speeds.items():
            found.append(_measured(name))
    _report({name: statistics.median(found) for name, found in speeds.items()})


def _report(speeds: dict[str, float]) -> None:
    from report import write_result

    figures = {name: {"steps_per_second": round(speed, 1)} for name, speed in speeds.items()}
    figures["overheads"] = {
        "fit over model.fit": round(speeds[KERAS] / speeds[ONE] - 1, 3),
        "mirrored over one device": round(speeds[ONE] / speeds[TWO] - 1, 3),
        "checkpoints over none": round(speeds[ONE] / speeds[KEPT] - 1, 3),
        "weak scaling efficiency": round(speeds[WORKERS] / speeds[WORKER], 3),
    }
    for name, row in figures.items():
        print(name, row)
    write_result("distribution", figures, "target: fit at most 5 % over model.fit")


def _measured(name: str) -> float:
    """Steps a second of a contender, which runs in one process or two."""
    command = [sys.executable, *sys.argv, "--contender", name]
    environments = [{}]
    if name == WORKERS:
        workers = [f"127.0.0.1:{port}" for port in _free_ports(2)]
        environments = [
            {
                "TF_CONFIG": json.dumps(
                    {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
                )
            }
            for index in range(2)
        ]
    processes = [
        subprocess.Popen(command, env={**os.environ, **each}, stdout=subprocess.PIPE, text=True)
        for each in environments
    ]
    outputs = [process.communicate()[0] for process in processes]
    return min(json.loads(output.splitlines()[-1]) for output in outputs)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _steps_a_second(name: str, arguments) -> float:
    """Train a recurrent network on random sequences, and time the steps after the first."""
    import keras
    import tensorflow as tf

    from keras_attn import training

    if name in (WORKER, WORKERS):
        threads = max(1, os.cpu_count() // 2)
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    if name == TWO:
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
    kinds = {TWO: ("mirrored", ["CPU:0", "CPU:1"]), WORKERS: ("multi_worker",)}
    strategy = training.make_strategy(*kinds.get(name, ("none",)))
    rows = arguments.rows * (2 if name == WORKERS else 1)
    x = tf.random.stateless_normal([rows, 20, 16], [1, 2])
    batches = tf.data.Dataset.from_tensors((x, tf.reduce_sum(x, [1, 2])[:, None])).repeat()
    with strategy.scope():
        inputs = keras.Input((20, 16))
        hidden = keras.layers.LSTM(arguments.units, return_sequences=True)(inputs)
        outputs = keras.layers.Dense(1)(keras.layers.LSTM(arguments.units)(hidden))
        model, optimizer = keras.Model(inputs, outputs), keras.optimizers.Adam()
    times = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: times.append(time.perf_counter())
    )
    if name == KERAS:
        model.compile(optimizer, "mse")
        model.fit(batches, steps_per_epoch=arguments.steps, verbose=0, callbacks=[watch])
    else:
        with tempfile.TemporaryDirectory() as directory:
            callbacks = [watch, *(_keeping(directory, arguments.steps) if name == KEPT else [])]
            training.fit(
                model, batches, arguments.steps, optimizer=optimizer, objective=_squared_error,
                strategy=strategy, callbacks=callbacks,
            )  # fmt: skip
    return (len(times) - 1 - arguments.warmup) / (times[-1] - times[arguments.warmup])


def _keeping(directory: str, steps: int) -> list:
    from keras_attn import training

    pace = training.Pace(training.Budget(steps=steps + 1), lambda used, step: 1e-3)
    keeping = training.KeepCheckpoints(
        training.RunDirectory(directory), pace, validate=dict, validations=1, every_steps=100
    )
    return [pace, keeping]


def _squared_error(model, batch):
    import tensorflow as tf

    error = model(batch[0], training=True) - batch[1]
    return tf.reduce_sum(error**2), tf.cast(tf.shape(error)[0], tf.float32)


if __name__ == "__main__":
    main()
