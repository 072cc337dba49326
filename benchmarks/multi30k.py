"""RNNsearch or the Transformer on Multi30k's raw text: BLEU and chrF on test2016 by minutes.

    KERAS_ATTN_DATA=... python benchmarks/multi30k.py --directory runs --minutes 10 25
    KERAS_ATTN_DATA=... python benchmarks/multi30k.py --model transformer --minutes 25

Trains one run for each budget with `keras-attn train multi30k-MODEL --minutes M --run
DIRECTORY/MODEL-minutes-M` (a finished run is not trained again), evaluates it, and measures how
long its exported model takes for a sentence. A server of our own answers `SENTENCES`, none of
which is in the data. The heat map of the last run goes to `--picture`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from report import write_result

KERAS_ATTN = [sys.executable, "-c", "from keras_attn.cli import main; main()"]
TARGETS = {("rnnsearch", 10): 26.0, ("rnnsearch", 25): 31.0}
SENTENCES = [
    "Two children are building a snowman in front of their house.",
    "An old man is reading a newspaper on a bench in the park.",
    "A woman in a red coat is waiting for the train with her dog.",
]


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


def seconds_for_a_sentence(version: Path) -> float:
    """Median time of the exported model for one of ten captions, after one for warming up."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    captions = [f"Two dogs are playing in the snow near {n} people." for n in range(11)]
    serve = tf.saved_model.load(str(version)).signatures["serving_default"]
    times = []
    for caption in captions:
        started = time.perf_counter()
        serve(text=tf.constant([caption]))
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))


def answers_over_rest(base_path: Path) -> dict[str, str]:
    """What a server answers to `SENTENCES`."""
    from keras_attn.serving import models_from_flags, running_server

    models = models_from_flags(model_name="translator", model_base_path=base_path)
    body = json.dumps({"instances": SENTENCES}).encode()
    with running_server(models) as address:
        url = f"{address}/v1/models/translator:predict"
        with urllib.request.urlopen(url, body) as reply:
            predictions = json.load(reply)["predictions"]
    return {s: p["text"] for s, p in zip(SENTENCES, predictions, strict=True)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, default=Path("runs"))
    parser.add_argument("--model", default="rnnsearch", choices=("rnnsearch", "transformer"))
    parser.add_argument("--minutes", type=int, nargs="+", default=[10, 25])
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    figures = {}
    for minutes in arguments.minutes:
        run = arguments.directory / f"{arguments.model}-minutes-{minutes}"
        keras_attn("train", f"multi30k-{arguments.model}", "--run", run, "--minutes", minutes)
        with tempfile.TemporaryDirectory() as directory:
            keras_attn("export", "--run", run, "--directory", directory)
            figures[f"{minutes} minutes"] = {
                **evaluated(run),
                "target bleu": TARGETS.get((arguments.model, minutes)),
                "seconds for a sentence": round(seconds_for_a_sentence(Path(directory, "1")), 4),
                "answers over REST": answers_over_rest(Path(directory)),
            }
        print(minutes, figures[f"{minutes} minutes"])
    if arguments.picture:
        keras_attn("plot", "--run", run, "--output", arguments.picture)
    name = {"rnnsearch": "multi30k", "transformer": "multi30k_transformer"}[arguments.model]
    write_result(name, figures, arguments.note)


if __name__ == "__main__":
    main()
