"""RNNsearch on Multi30k's raw text: BLEU and chrF on test2016 after so many minutes.

    KERAS_ATTN_DATA=... python benchmarks/multi30k.py --directory runs --minutes 10 25

Trains one run for each budget with `keras-attn train multi30k-rnnsearch --minutes M --run
DIRECTORY/minutes-M` (a finished run is not trained again), evaluates it, and measures how long its
exported model takes for a sentence. The heat map of the last run goes to `--picture`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from report import write_result

KERAS_ATTN = [sys.executable, "-c", "from keras_attn.cli import main; main()"]
TARGETS = {10: 26.0, 25: 31.0}


def keras_attn(*arguments, **options) -> str:
    """Run a command and return what it prints."""
    command = [*KERAS_ATTN, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def evaluated(run: Path) -> dict:
    """The metrics and signatures that `keras-attn evaluate` prints."""
    found = {}
    for line in keras_attn("evaluate", "--run", run).splitlines():
        name, value = line.split(": ", 1)
        found[name] = float(value) if re.fullmatch(r"[0-9.]+", value) else value
    return found


def seconds_for_a_sentence(run: Path) -> float:
    """Median time of the exported model for one of ten captions, after one for warming up."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    captions = [f"Two dogs are playing in the snow near {n} people." for n in range(11)]
    with tempfile.TemporaryDirectory() as directory:
        keras_attn("export", "--run", run, "--directory", directory)
        serve = tf.saved_model.load(f"{directory}/1").signatures["serving_default"]
        times = []
        for caption in captions:
            started = time.perf_counter()
            serve(text=tf.constant([caption]))
            times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, default=Path("runs"))
    parser.add_argument("--minutes", type=int, nargs="+", default=[10, 25])
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    figures = {}
    for minutes in arguments.minutes:
        run = arguments.directory / f"minutes-{minutes}"
        keras_attn("train", "multi30k-rnnsearch", "--run", run, "--minutes", minutes)
        figures[f"{minutes} minutes"] = {
            **evaluated(run),
            "target bleu": TARGETS.get(minutes),
            "seconds for a sentence": round(seconds_for_a_sentence(run), 4),
        }
        print(minutes, figures[f"{minutes} minutes"])
    if arguments.picture:
        keras_attn("plot", "--run", run, "--output", arguments.picture)
    write_result("multi30k", figures, arguments.note)


if __name__ == "__main__":
    main()
