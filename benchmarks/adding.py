"""Who learns to add two marked numbers in a long stream, and how soon.

The claim: gated cells solve the adding problem over 100 moments in 6,000 steps; a plain RNN, and an
LSTM that begins with a forget bias of 0, do not in 2,000; and it is solved over 200 and 400 moments
in less than half an hour each.

    python benchmarks/adding.py

Trains with the settings of the recipe `adding` (64 units, batches of 50, Adam 1e-3, gradient norm
at most 1), writes the mean squared errors on 1,000 streams never trained on to
benchmarks/results/adding.json, their curves to adding.png beside it and what the LSTM's cells hold
to adding_cells.png.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from report import RESULTS, write_result

from keras_attn.analysis import save_figure
from keras_attn.data.adding import adding_batches
from keras_attn.recipes.adding import Adding
from keras_attn.training import RunDirectory, fit

STEPS = {"lstm": 6_000, "peephole": 6_000, "gru": 6_000, "rnn": 2_000, "lstm-forgetful": 2_000}
NAMES = {
    "lstm": "LSTM",
    "peephole": "peephole LSTM",
    "gru": "GRU",
    "rnn": "tanh RNN",
    "lstm-forgetful": "LSTM, forget bias 0",
}
ALWAYS_ONE = 1 / 6
SOLVED = 0.01


class Curve(keras.callbacks.Callback):
    """Keeps (step, seconds, error) every so many steps, and may end training.

    Args:
        recipe, text_model: whose error it is.
        every: steps.
        stop_when_solved: whether an error below `SOLVED` ends it.
        seconds: after which it ends.
    """

    def __init__(self, recipe, text_model, every, stop_when_solved, seconds):
        super().__init__()
        self._error = lambda: recipe.evaluate(text_model)["squared_error"]
        self._every, self._stop_when_solved, self._most = every, stop_when_solved, seconds
        self._started = time.monotonic()
        self.points = []

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self._every:
            return
        seconds = time.monotonic() - self._started
        error = self._error()
        self.points.append((batch + 1, round(seconds, 1), round(error, 5)))
        print(f"  step {batch + 1}  {seconds:.0f} s  {error:.5f}", flush=True)
        solved = self._stop_when_solved and error < SOLVED
        self.model.stop_training = solved or seconds > self._most


def trained(cell, length, steps, every=250, stop_when_solved=False, minutes=30.0):
    """Train one network; return its curve, the recipe and the model."""
    print(f"{NAMES[cell]}, T = {length}", flush=True)
    recipe = Adding(cell=cell, length=length)
    nowhere = RunDirectory(Path())  # the recipe keeps nothing in it
    model = recipe.build(nowhere)
    text_model = recipe.text_model(model, nowhere)
    curve = Curve(recipe, text_model, every, stop_when_solved, 60 * minutes)
    fit(
        model,
        recipe.batches(nowhere),
        steps,
        optimizer=keras.optimizers.Adam(1e-3),
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
        callbacks=[curve],
    )
    return curve.points, recipe, text_model


def summary(points) -> dict:
    solved = next((point for point in points if point[2] < SOLVED), (None, None, None))
    return {
        "steps": points[-1][0],
        "seconds": points[-1][1],
        "squared error": points[-1][2],
        "steps to 0.01": solved[0],
        "seconds to 0.01": solved[1],
        "curve (step, seconds, squared error)": points,
    }


def plot_curves(curves: dict, length: int):
    """The errors over the steps, beside that of always answering 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for cell, points in curves.items():
        steps, _, errors = zip(*points, strict=True)
        axes.plot(steps, errors, label=NAMES[cell])
    axes.axhline(ALWAYS_ONE, color="gray", linestyle="--", linewidth=1)
    axes.annotate("always 1: 0.167", (1.0, ALWAYS_ONE), xycoords=("axes fraction", "data"),
                  ha="right", va="bottom", color="gray")  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("mean squared error")
    axes.set_title(f"Adding two marked numbers of {length}", loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def streams(length: int, count: int = 3) -> list[str]:
    """Streams as the recipe reads them."""
    sequences = next(iter(adding_batches(length, count, seed=12345)))[0].numpy()
    return [" ".join(f"{'*' if m else ''}{v:.4f}" for v, m in sequence) for sequence in sequences]


def write_figure(figure, name: str):
    with (RESULTS / name).open("wb") as file:
        save_figure(figure, file, "png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--longer", type=int, nargs="*", default=[200, 400])
    parser.add_argument("--share", type=float, default=1.0, help="of the steps; a try if below 1")
    parser.add_argument("--note", default="", help="written beside the figures")
    options = parser.parse_args()
    curves, figures = {}, {}
    for cell, steps in STEPS.items():
        steps = max(int(steps * options.share), 2)
        points, recipe, text_model = trained(cell, options.length, steps, min(250, steps))
        curves[cell] = points
        figures[f"T = {options.length}, {NAMES[cell]}"] = summary(points)
        if cell == "lstm":
            cells = recipe.plot(text_model, streams(options.length))
    gated = ("lstm", "peephole", "gru")
    soonest = min(gated, key=lambda cell: summary(curves[cell])["steps to 0.01"] or np.inf)
    for length in options.longer:
        steps = max(int(100_000 * options.share), 2)
        points, _, _ = trained(soonest, length, steps, min(250, steps), stop_when_solved=True)
        figures[f"T = {length}, {NAMES[soonest]}"] = summary(points)
    if options.share == 1.0:
        write_figure(plot_curves(curves, options.length), "adding.png")
        write_figure(cells, "adding_cells.png")
        write_result("adding", figures, options.note)


if __name__ == "__main__":
    main()
