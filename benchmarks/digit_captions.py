"""Does a captioner look at the digit that it names, and does it need to?

The claims, after 25 minutes on one core each: of canvases with two digits of MNIST's test set at
least 90 % get a caption without a mistake with soft attention and 80 % with hard attention, and
while the name of a digit is written at least 0.7 of the attention lies on that digit (of even
attention 0.25 does). With the images of other captions, or what lies at other places in what it
looks at, next to nothing is right.

    python benchmarks/digit_captions.py --directory runs

Trains the recipe digit-captions twice side by side, soft and hard, each on a core of its own. What
was interrupted goes on and what is finished is not trained again. Writes
benchmarks/results/digit_captions.json, and to digit_captions.png beside it the maps of a few words.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from report import RESULTS, write_result

from keras_attn.analysis import plot_captions, save_figure
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import train
from keras_attn.training import Budget, RunDirectory, load_checkpoint

TARGETS = {
    "soft": {"exact_match": 0.9, "attention": 0.7},
    "hard": {"exact_match": 0.8, "attention": 0.7},
}
_ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


def trained(attention: str, directory: Path, minutes: float):
    """The recipe and its trained model, from the run directory if it is finished."""
    recipe = make_recipe("digit-captions", attention=attention)
    run = RunDirectory(directory / f"digit-captions-{attention}")
    if train(recipe, run, Budget(minutes=minutes)) is not None:
        raise KeyboardInterrupt  # the same command goes on
    model = recipe.build(run)
    load_checkpoint(run.best_checkpoint, model)
    return recipe, recipe.text_model(model, run)


def measure(attention: str, directory: Path, minutes: float, core: int) -> None:
    """Train and evaluate on one core; the last line that is printed are the figures."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    recipe, model = trained(attention, directory, minutes)
    figures = {name: round(value, 4) for name, value in recipe.evaluate(model).items()}
    print(json.dumps({"targets": TARGETS[attention], **figures}))


def side_by_side(arguments) -> dict[str, dict]:
    """The figures of both, each in a process with a core of its own where there are two."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    processes = {}
    for number, attention in enumerate(TARGETS):
        command = [
            *(sys.executable, __file__, "--directory", arguments.directory),
            *("--minutes", arguments.minutes, "--attention", attention),
            *("--core", cores[number % len(cores)]),
        ]
        processes[attention] = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **_ONE_THREAD},
        )  # fmt: skip
    answers = {name: process.communicate()[0] for name, process in processes.items()}
    if any(process.returncode for process in processes.values()):
        raise SystemExit("A training ended before its time; the same command goes on.")
    return {name: json.loads(answer.splitlines()[-1]) for name, answer in answers.items()}


def picture(arguments):
    """The same canvases as both models describe them."""
    captions = []
    for attention in TARGETS:
        recipe, model = trained(attention, arguments.directory, arguments.minutes)
        captions += model.captions(recipe.samples[:3])
    return plot_captions(captions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, default=Path("runs"))
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--note", default="", help="written beside the figures")
    parser.add_argument("--attention", choices=tuple(TARGETS), help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attention is not None:
        measure(arguments.attention, arguments.directory, arguments.minutes, arguments.core)
        return
    figures = side_by_side(arguments)
    for attention, found in figures.items():
        print(attention, found)
    note = f"{arguments.minutes:g} minutes on one core each. {arguments.note}".strip()
    write_result("digit_captions", figures, note)
    save_figure(picture(arguments), RESULTS / "digit_captions.png", "png")


if __name__ == "__main__":
    main()
