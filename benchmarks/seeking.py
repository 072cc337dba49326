"""How long a run that goes on waits for its first batch.

Measures, for the batches of the recipes (Multi30k's pairs, dates, adding), the seconds from the
start of the pipeline to the first batch of a late step: found by the state in a checkpoint, found
without one, and by replaying all batches before it, which is what a plain dataset's `skip` does.
Each is made anew for each time; what is read from disk is in the system's cache.

    python benchmarks/seeking.py [--step 100000] [--replayed 10000]

The replay is timed up to `--replayed` batches and reckoned in proportion beyond them.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from report import write_result

from keras_attn.data.seekable import SeekableBatches
from keras_attn.recipes import make_recipe
from keras_attn.training import RunDirectory

RECIPES = ("multi30k-transformer", "dates", "adding")


def seconds_to(make: Callable[[], tf.data.Dataset]) -> float:
    """From the opening of the data to the first batch."""
    start = time.perf_counter()
    next(iter(make()))
    return time.perf_counter() - start


def state_at(batches: SeekableBatches, step: int) -> dict:
    """What a checkpoint of that step would hold: the run has come by there."""
    next(iter(batches.from_step(step)))
    return batches.state(step)


def measured(name: str, directory: Path, step: int, replayed: int) -> dict[str, float]:
    recipe, run = make_recipe(name), RunDirectory(directory / name)
    recipe.prepare(run)
    state = state_at(recipe.batches(run), step)
    first = seconds_to(lambda: recipe.batches(run))
    seeking = seconds_to(lambda: recipe.batches(run).restore(state).from_step(step))
    without_state = seconds_to(lambda: recipe.batches(run).from_step(step))
    replay = seconds_to(lambda: recipe.batches(run).skip(replayed)) - first
    return {
        "first batch of a new run, s": round(first, 3),
        "with the state, s": round(seeking, 3),
        "without a state, s": round(without_state, 3),
        "replay, s": round(first + replay * step / replayed, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=int, default=100_000)
    parser.add_argument("--replayed", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = {
            name: measured(name, Path(directory), arguments.step, arguments.replayed)
            for name in RECIPES
        }
    for name, seconds in figures.items():
        print(f"{name:<22}" + "  ".join(f"{what} {value}" for what, value in seconds.items()))
    note = f"Step {arguments.step}; {arguments.replayed} batches replayed, the rest in proportion."
    write_result("seeking", figures, note)


if __name__ == "__main__":
    main()
