"""Does an attention learn where to look, though nobody tells it, and does the model need it?

The claims, after 5 minutes of training each: of sequences of 15 numbers at least 99 % are reversed
without a mistake, and at least 80 % of 17, a length never seen in training; at least 0.9 of the
attention lies on the anti-diagonal. Of 10 numbers, repeats among them, at least 95 % are sorted
without a mistake, and at least 0.8 of the attention lies on the positions that hold the number that
is written. With one fixed vector in place of attention at most half as many are right, and with
the positions shuffled at test less than 5 %.

    python benchmarks/reversal_sorting.py --directory runs

Trains each recipe twice, with its attention and with a decoder that reads the last annotation at
every step, whatever it writes. A run that was interrupted goes on and a finished one is not
trained again. Writes benchmarks/results/reversal_sorting.json, and to reversal_sorting.png beside
it the mean alignments and the share of right answers by length.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from report import RESULTS, write_result

from keras_attn.analysis import save_figure
from keras_attn.models import RNNSearch
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import train
from keras_attn.training import Budget, RunDirectory, load_checkpoint

TARGETS = {
    "reversal": {"exact at 15": 0.99, "exact at 17": 0.8, "attention at 15": 0.9},
    "sorting": {"exact at 10": 0.95, "attention at 10": 0.8},
}
KINDS = {
    "attention": "attention",
    "shuffled": "attention shuffled at test",
    "vector": "one vector, what the encoder knows at the end",
}


class FixedVector(RNNSearch):
    """RNNsearch whose decoder may look at one annotation only, that of the end token.

    It is what the encoder knows when it has read all: the fixed vector of Cho et al. 2014. Every
    alignment has a weight of 1 there.
    """

    def _annotate(self, source, source_lengths, training):
        annotations, mask = super()._annotate(source, source_lengths, training)  # mask (B, S)
        follows = keras.ops.pad(mask[:, 1:], [(0, 0), (0, 1)], constant_values=False)
        return annotations, keras.ops.logical_and(mask, keras.ops.logical_not(follows))


class WithoutAttention:
    """A recipe that trains a `FixedVector` of the same sizes.

    Args:
        recipe: reversal or sorting.
    """

    def __init__(self, recipe):
        self._recipe = recipe
        self.name = f"{recipe.name} without attention"

    def __getattr__(self, name):
        return getattr(self._recipe, name)

    def build(self, run: RunDirectory) -> keras.Model:
        config = self._recipe.build(run).get_config()
        keras.utils.set_random_seed(self._recipe.settings["seed"])
        return FixedVector.from_config(config)


def trained(recipe, directory: Path, minutes: float):
    """The trained model of a recipe, from its run directory if it is finished."""
    run = RunDirectory(directory / recipe.name.replace(" ", "-"))
    print(f"{recipe.name}: {run.path}", flush=True)
    if train(recipe, run, Budget(minutes=minutes)) is not None:
        raise KeyboardInterrupt  # the same command goes on
    model = recipe.build(run)
    load_checkpoint(run.best_checkpoint, model)
    return recipe.text_model(model, run)


def by_length(recipe, text_model, count: int) -> dict[int, dict[str, float]]:
    return {
        length: recipe.measured(text_model, recipe.sequences(length, count))
        for length in recipe.task.lengths
    }


def mean_alignment(recipe, text_model, count: int) -> np.ndarray:
    """The mean over answers that are as long as the source: (T, S), the end tokens included.

    The columns are put in the order in which the task writes the numbers, of equal ones the first
    first, when that order is not one of places.
    """
    length = recipe.task.shown_length
    numbers = recipe.sequences(length, count)
    texts = [" ".join(map(str, row)) for row in numbers]
    alignments = [
        alignment[:, order]
        for (_, target, alignment), order in zip(
            text_model.alignments(texts), columns(recipe, numbers), strict=True
        )
        if len(target) == length + 1
    ]
    return np.mean(alignments or [np.zeros((length + 1, length + 1))], axis=0)


def columns(recipe, numbers: np.ndarray) -> np.ndarray:
    """In which order the columns of each alignment are drawn, the end token last: (B, n + 1)."""
    places = np.broadcast_to(np.arange(numbers.shape[1]), numbers.shape)
    if recipe.name == "sorting":
        places = np.argsort(numbers, axis=1, kind="stable")
    return np.pad(places, [(0, 0), (0, 1)], constant_values=numbers.shape[1])


def plot(alignments: dict[str, np.ndarray], exact: dict[str, dict[str, dict[int, float]]]):
    """Above the mean alignments, below the share of right answers by length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    for column, (name, alignment) in enumerate(alignments.items()):
        length = len(alignment) - 1
        axes = figure.add_subplot(2, 2, 1 + column)
        image = axes.imshow(alignment, cmap="Blues", vmin=0.0, vmax=1.0)
        source = "the source, sorted" if name == "sorting" else "the source"
        axes.set_xlabel(f"position in {source}; the last is the end token")
        axes.set_ylabel("step of the answer")
        axes.set_xticks(range(0, length + 1, 2), range(1, length + 2, 2))
        axes.set_yticks(range(0, length + 1, 2), range(1, length + 2, 2))
        axes.set_title(f"{name}: mean alignment at length {length}", loc="left")
        axes = figure.add_subplot(2, 2, 3 + column)
        axes.axvspan(5, 15, color="0.93", label="lengths of training")
        for kind, shares in exact[name].items():
            axes.plot(shares.keys(), shares.values(), marker=".", label=KINDS[kind])
        axes.set_ylim(-0.02, 1.02)
        axes.set_xticks(range(5, 21, 5))
        axes.set_xlabel("length")
        axes.set_ylabel("answers without a mistake")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.colorbar(image, ax=[figure.axes[0], figure.axes[2]], shrink=0.7, label="weight")
    return figure


def summary(recipe, measures: dict[str, dict[int, dict[str, float]]]) -> dict:
    shown = recipe.task.shown_length
    exact = {
        kind: {str(length): round(m["exact_match"], 4) for length, m in found.items()}
        for kind, found in measures.items()
    }
    return {
        "targets": TARGETS[recipe.name],
        f"attention at {shown}": round(measures["attention"][shown]["attention"], 4),
        f"exact at {shown}": {KINDS[kind]: shares[str(shown)] for kind, shares in exact.items()},
        "exact by length": {KINDS[kind]: shares for kind, shares in exact.items()},
        "attention by length": {
            str(length): round(m["attention"], 4) for length, m in measures["attention"].items()
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, default=Path("runs"))
    parser.add_argument("--minutes", type=float, default=5.0, help="of each of the four trainings")
    parser.add_argument("--count", type=int, default=1_000, help="sequences of each length")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--note", default="", help="written beside the figures")
    options = parser.parse_args()
    figures, alignments, exact = {}, {}, {}
    for name in ("reversal", "sorting"):
        recipe = make_recipe(name, seed=options.seed)
        model = trained(recipe, options.directory, options.minutes)
        vector = trained(WithoutAttention(recipe), options.directory, options.minutes)
        models = {"attention": model, "shuffled": recipe.shuffled(model), "vector": vector}
        measures = {kind: by_length(recipe, m, options.count) for kind, m in models.items()}
        figures[name] = summary(recipe, measures)
        print(name, figures[name], flush=True)
        alignments[name] = mean_alignment(recipe, model, options.count)
        exact[name] = {
            kind: {length: m["exact_match"] for length, m in found.items()}
            for kind, found in measures.items()
        }
    with (RESULTS / "reversal_sorting.png").open("wb") as file:
        save_figure(plot(alignments, exact), file, "png")
    write_result("reversal_sorting", figures, options.note)


if __name__ == "__main__":
    main()
