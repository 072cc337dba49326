"""What checkpoints cost the training: the same steps with one every 100 steps and without, in turn.

    python benchmarks/checkpointing.py [--rounds 5] [--steps 200]

A Transformer of 4.7 million weights (19 MB; 56 MB in a checkpoint with Adam's) is trained on
batches of one shape. Each round trains so many steps with `KeepCheckpoints` that saves every 100
steps, and as many with one that never does; the order is turned round from round to round. Printed
are the medians, their ratio, and the seconds of the longest save.
"""

import argparse
import statistics
import tempfile
import time

import keras
import tensorflow as tf
from report import write_result

from keras_attn.models import Transformer
from keras_attn.training import Budget, KeepCheckpoints, Pace, RunDirectory, fit, token_objective

EVERY = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2 * EVERY)
    arguments = parser.parse_args()
    model, optimizer = _model(), keras.optimizers.Adam(1e-4)
    train = {
        "without": lambda run: _seconds(model, optimizer, run, arguments.steps, None),
        "with": lambda run: _seconds(model, optimizer, run, arguments.steps, EVERY),
    }
    seconds = {name: [] for name in train}
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(directory)
        _seconds(model, optimizer, run, 1, EVERY)  # compiles
        for number in range(arguments.rounds):
            for name in sorted(train, reverse=number % 2 == 0):
                seconds[name].append(train[name](run))
            print({name: round(times[-1], 2) for name, times in seconds.items()}, flush=True)
        size = run.last_checkpoint.stat().st_size
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratios = [a / b for a, b in zip(seconds["with"], seconds["without"], strict=True)]
    figures = {
        "weights": model.count_params(),
        "checkpoint_megabytes": round(size / 1e6, 1),
        "steps_of_a_round": arguments.steps,
        "steps_between_checkpoints": EVERY,
        "milliseconds_a_step": {
            name: round(1e3 * median / arguments.steps, 2) for name, median in medians.items()
        },
        "ratio": round(statistics.median(ratios), 4),
        "ratios_of_rounds": [round(ratio, 4) for ratio in ratios],
        "longest_save_seconds": round(run.writer.longest, 3),
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    write_result("checkpointing", figures, "ratio: the median over rounds of with / without")


def _model() -> keras.Model:
    keras.utils.set_random_seed(1)
    return Transformer(
        8_000,
        8_000,
        dim=256,
        num_heads=4,
        intermediate_dim=512,
        encoder_layers=2,
        decoder_layers=2,
        max_length=32,
    )


def _seconds(model, optimizer, run: RunDirectory, steps: int, every_steps: int | None) -> float:
    """Of so many steps, begun and ended half way between two checkpoints."""
    first, last = EVERY // 2, EVERY // 2 + steps
    pace = Pace(Budget(steps=last + 1), lambda used, step: 1e-4)
    keeping = KeepCheckpoints(
        run,
        pace,
        validate=lambda: {"none": 0.0},
        validations=1,
        report=lambda line: None,
        every_seconds=float("inf"),
        every_steps=every_steps,
    )
    ends = []
    clock = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs=None: ends.append(time.perf_counter())
    )
    fit(
        model,
        _batches(),
        last,
        optimizer=optimizer,
        objective=token_objective(),
        callbacks=[clock, pace, keeping] if every_steps else [clock, pace],
    )
    return ends[-1] - ends[first - 1]


def _batches() -> tf.data.Dataset:
    ids = tf.random.stateless_uniform([16, 17], [1, 2], 4, 8_000, tf.int32)
    mask = tf.ones([16, 16], tf.bool)
    inputs = {
        "source": ids[:, 1:],
        "source_lengths": tf.fill([16], 16),
        "target": ids[:, :-1],
    }
    return tf.data.Dataset.from_tensors((inputs, ids[:, 1:], mask)).repeat()


if __name__ == "__main__":
    main()
