"""BLEU over wall time on Multi30k in the published pieces of Wu et al. 2021, English to German.

    KERAS_ATTN_DATA=... python benchmarks/translation.py --name "25 minutes" --minutes 25
    KERAS_ATTN_DATA=... python benchmarks/translation.py --model rnnsearch --minutes 25

Trains the recipe `multi30k-pieces` in `--directory`/NAME, or goes on with it where it stopped, a
finished run too if its budget has grown. While it trains, greedy search translates the first
`--validation-pairs` pairs of the validation set; that is the curve. At the end beam search of width
5 translates test2016, with the average of the last checkpoints or the best checkpoint, whichever is
better on the validation set. The score is `sacrebleu --tokenize none -lc` of whole words. Runs are
collected by name in `results/translation.json` and drawn in `results/translation.png`.
"""

import argparse
import json
import os
import time
from pathlib import Path

import tensorflow as tf
from report import RESULTS, write_result

from keras_attn.files import written_whole
from keras_attn.kept_memory import keep_freed_memory
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import load, train
from keras_attn.training import Budget, RunDirectory, read_history

PUBLISHED = 41.02  # Wu et al. 2021, text only, Transformer of this size, test2016
BEAM_WIDTH = 5


def history(run: RunDirectory) -> list[dict]:
    """What the validations found, in the order of the steps; after a crash the later count."""
    entries = [entry for entry in read_history(run.path) if "bleu" in entry]
    last = {(entry["step"], "averaged" in entry): entry for entry in entries}
    return [last[key] for key in sorted(last)]


def measured(run: RunDirectory, length_penalty: float) -> dict:
    """The curve of a finished run, and its score on the test set."""
    entries = history(run)
    curve = [entry for entry in entries if "averaged" not in entry]
    recipe, text_model = load(run)
    started = time.perf_counter()
    greedy = recipe.evaluate(text_model)
    beam = recipe.evaluate(text_model.with_beam(BEAM_WIDTH, length_penalty, 1))
    return {
        "settings": recipe.settings,
        "steps": int(entries[-1]["step"]),
        "minutes": round(entries[-1]["minutes"], 1),
        "test2016 bleu, beam 5": round(beam["test2016 bleu"], 2),
        "test2016 bleu, greedy": round(greedy["test2016 bleu"], 2),
        "test2016 chrf, beam 5": round(beam["test2016 chrf"], 2),
        "bleu signature": beam["test2016 bleu_signature"],
        "length penalty": length_penalty,
        "weights": "average" if uses_average(entries) else "best",
        "seconds to translate twice": round(time.perf_counter() - started, 1),
        "curve, minutes and greedy validation bleu": [
            [round(entry["minutes"], 2), round(entry["bleu"], 2)] for entry in curve
        ],
    }


def uses_average(entries: list[dict]) -> bool:
    """Whether the average is what `load` chooses: it is if it is no worse than any other."""
    averages = [entry["bleu"] for entry in entries if "averaged" in entry]
    return bool(averages) and averages[-1] >= max(entry["bleu"] for entry in entries)


def plot(runs: dict, output: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, run in runs.items():
        curve = run["curve, minutes and greedy validation bleu"]
        (line,) = axes.plot(*zip(*curve, strict=True), label=f"{name}, validation, greedy")
        axes.plot(
            run["minutes"],
            run["test2016 bleu, beam 5"],
            "o",
            color=line.get_color(),
            label=f"{name}, test2016, beam 5: {run['test2016 bleu, beam 5']:.1f}",
        )
    axes.axhline(PUBLISHED, color="black", linewidth=1, linestyle="--")
    axes.annotate(
        f"Wu et al. 2021, test2016: {PUBLISHED}", (0.02, PUBLISHED), xytext=(4, 3),
        xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8,
    )  # fmt: skip
    axes.set(xlabel="minutes of training, validation included", ylabel="BLEU", ylim=(0, 45))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    with written_whole(output) as file:
        figure.savefig(file, format="png", dpi=160)


def setting(text: str) -> tuple[str, object]:
    """NAME=VALUE, the value as JSON where it is JSON."""
    name, value = text.split("=", 1)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", help="of the run; by default model and minutes")
    parser.add_argument("--model", default="transformer", choices=("transformer", "rnnsearch"))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--set", type=setting, nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--directory", type=Path, default=Path("runs/translation"))
    parser.add_argument("--validations", type=int, default=25)
    parser.add_argument("--validation-pairs", type=int, default=256)
    parser.add_argument("--patience", type=int)
    parser.add_argument("--tensorboard", type=Path)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--threads", type=int, help="of TensorFlow; by default all cores")
    parser.add_argument("--note", default="")
    parser.add_argument("--try-out", action="store_true", help="write no result")
    return parser.parse_args()


def main():
    given = arguments()
    memory_is_kept = keep_freed_memory()
    if given.threads:
        tf.config.threading.set_intra_op_parallelism_threads(given.threads)
        tf.config.threading.set_inter_op_parallelism_threads(given.threads)
    recipe = make_recipe("multi30k-pieces", model=given.model, **dict(given.set))
    recipe.validations, recipe.validation_pairs = given.validations, given.validation_pairs
    budget = Budget(given.steps, given.minutes)
    amount = f"{given.minutes:g} minutes" if given.minutes else f"{given.steps} steps"
    name = given.name or f"{given.model}, {amount}"
    run = RunDirectory(given.directory / name.replace(" ", "-").replace(",", ""))
    options = {"patience": given.patience, "tensorboard": given.tensorboard}
    if train(recipe, run, budget, **options) is not None:
        raise SystemExit("Stopped; the same command goes on from here.")
    figures = {
        **measured(run, given.length_penalty),
        "threads": given.threads or os.cpu_count(),
        "freed memory kept": memory_is_kept,
        "note": given.note,
    }
    print(json.dumps({name: figures}, indent=1))
    if given.try_out:
        return
    path = RESULTS / "translation.json"
    earlier = json.loads(path.read_text())["figures"]["runs"] if path.exists() else {}
    runs = {**earlier, name: figures}
    published = {"test2016 bleu, beam 5": PUBLISHED, "source": "Wu et al. 2021"}
    write_result("translation", {"published": published, "runs": runs}, "each run has its own note")
    plot(runs, RESULTS / "translation.png")


if __name__ == "__main__":
    main()
