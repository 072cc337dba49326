"""What `keep_freed_memory` gains in training, in real target tokens a second.

    KERAS_ATTN_DATA=... python benchmarks/kept_memory.py --rounds 5

Trains the Transformer of the recipe `multi30k-pieces` for `--steps` steps in fresh processes, in
turn with the C library as it is and with memory kept, each timed after its first ten steps. The
largest resident size is that of the whole process.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from report import write_result

from keras_attn.kept_memory import keep_freed_memory

WARM_UP = 10
WAYS = ("returned", "kept")


def train(way: str, steps: int) -> dict[str, float]:
    """Train in this process and return what it took."""
    if way == "kept" and not keep_freed_memory():
        raise SystemExit("This C library does not let memory be kept.")
    import keras

    from keras_attn.recipes import make_recipe
    from keras_attn.training import RunDirectory, fit

    ends, tokens = [], []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(time.perf_counter())
            tokens.append(logs["tokens"])

    recipe = make_recipe("multi30k-pieces", model="transformer")
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(directory)
        recipe.prepare(run)
        fit(
            recipe.build(run),
            recipe.batches(run),
            WARM_UP + steps,
            optimizer=recipe.optimizer(),
            objective=recipe.objective(),
            clip_norm=recipe.clip_norm,
            callbacks=[Clock()],
        )
    speed = sum(tokens[WARM_UP:]) / (ends[-1] - ends[WARM_UP - 1])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tokens a second": speed, "largest resident MB": largest}


def in_fresh_process(way: str, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--steps", str(steps), "--in-this-process", way]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    reply = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(reply.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--note", default="")
    parser.add_argument("--in-this-process", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_this_process:
        print(json.dumps(train(arguments.in_this_process, arguments.steps)))
        return
    found = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way in WAYS:
            found[way].append(in_fresh_process(way, arguments.steps))
    figures = {
        way: {name: round(statistics.median(run[name] for run in runs)) for name in runs[0]}
        for way, runs in found.items()
    }
    speeds = [figures[way]["tokens a second"] for way in WAYS]
    figures["times faster"] = round(speeds[1] / speeds[0], 2)
    print(figures)
    write_result("kept_memory", figures, arguments.note)


if __name__ == "__main__":
    main()
