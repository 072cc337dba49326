"""The curves of training runs, side by side."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_attn.analysis.fonts import token_families

_OF_STEPS = {
    "loss": "training loss",
    "learning_rate": "learning rate",
    "gradient_norm": "gradient norm",
    "tokens_per_second": "tokens a second",
}
_NO_METRICS = {"step", "minutes", "averaged", "lines", *_OF_STEPS}
_LOGARITHMIC = {"gradient_norm"}
_SMOOTHED = {"loss", "gradient_norm", "tokens_per_second"}
_POINTS = 150  # of a smoothed curve
_NAMES_IN_LINE = 3  # of the legend


def plot_curves(histories: Mapping[str, Sequence[Mapping[str, float]]]):
    """Plot what training runs recorded, a panel for each quantity and a colour for each run.

    What is measured at every step and noisy is drawn faintly, its mean over neighbouring steps on
    top. Metrics of validations are points joined by lines; a star is that of averaged weights.

    Args:
        histories: entries by the name of their run, as `training.read_history` returns them: dicts
            with `step` and any of `loss`, `learning_rate`, `gradient_norm`, `tokens_per_second`,
            and the metrics of validations under other names.

    Returns:
        A `matplotlib.figure.Figure`; write it with `save_figure`. No window is opened.

    Raises:
        ValueError: if nothing was recorded.

    Example:

    >>> from keras_attn.analysis import plot_curves
    >>> entries = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}, {"step": 2, "bleu": 0.3}]
    >>> figure = plot_curves({"runs/mine": entries})
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['training loss', 'bleu']
    """
    # Only plots need matplotlib, which is no dependency of the package itself.
    from matplotlib.figure import Figure

    quantities = _quantities(histories)
    if not quantities:
        raise ValueError(
            f"There is nothing to draw. Received: histories of {list(histories)} without entries"
        )
    columns = min(len(quantities), max(2, math.ceil(math.sqrt(len(quantities) / 2))))
    rows = math.ceil(len(quantities) / columns)
    lines = math.ceil(len(histories) / _NAMES_IN_LINE)
    figure = Figure(figsize=(5.2 * columns, 2.9 * rows + 0.3 + 0.2 * lines), layout="constrained")
    all_axes = [figure.add_subplot(rows, columns, place + 1) for place in range(len(quantities))]
    for axes, quantity in zip(all_axes, quantities, strict=True):
        for number, entries in enumerate(histories.values()):
            _draw(axes, quantity, entries, _style(number))
        _finish(axes, quantity)
    if len(histories) > 1:
        handles = [_line(number) for number in range(len(histories))]
        figure.legend(
            handles,
            list(histories),
            loc="outside upper left",
            frameon=False,
            ncols=_NAMES_IN_LINE,
            prop={"family": list(token_families())},
        )
    return figure


def _quantities(histories) -> list[str]:
    """What was recorded: the loss, the metrics in the order of their names, the rest."""
    recorded = {
        name
        for entries in histories.values()
        for entry in entries
        for name, value in entry.items()
        if isinstance(value, int | float)
    }
    of_steps = [name for name in _OF_STEPS if name in recorded]
    metrics = sorted(recorded - _NO_METRICS)
    return of_steps[:1] + metrics + of_steps[1:] if "loss" in recorded else metrics + of_steps


def _style(number: int) -> dict:
    """Of the lines of a run: ten colours, and then the same colours dashed."""
    return {"color": f"C{number % 10}", "linestyle": ("-", "--", ":", "-.")[number // 10 % 4]}


def _draw(axes, quantity: str, entries, style: dict) -> None:
    found = [entry for entry in entries if isinstance(entry.get(quantity), int | float)]
    plain = [entry for entry in found if "averaged" not in entry]
    steps = np.array([entry["step"] for entry in plain], float)
    values = np.array([entry[quantity] for entry in plain], float)
    if quantity in _SMOOTHED and len(steps) > 2 * _POINTS:
        axes.plot(steps, values, color=style["color"], alpha=0.2, linewidth=0.7)
        axes.plot(*_means(steps, values), **style)
    else:
        axes.plot(steps, values, **style, marker="" if quantity in _OF_STEPS else ".")
    for entry in found:
        if "averaged" in entry:
            axes.plot(entry["step"], entry[quantity], "*", color=style["color"], markersize=11)
            axes.legend([_star()], ["of averaged weights"], frameon=False, fontsize="small")


def _means(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means of neighbours, what is no number left out."""
    kept = np.isfinite(values)
    groups = [np.array_split(x[kept], min(_POINTS, kept.sum())) for x in (steps, values)]
    return tuple(np.array([group.mean() for group in part]) for part in groups)


def _finish(axes, quantity: str) -> None:
    axes.set_title(_OF_STEPS.get(quantity, quantity), loc="left")
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    values = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    if quantity in _LOGARITHMIC and np.nanmin(values, initial=np.inf) > 0:
        axes.set_yscale("log")
    elif quantity == "tokens_per_second":
        axes.set_ylim(bottom=0)


def _star():
    from matplotlib.lines import Line2D

    return Line2D([], [], color="gray", marker="*", markersize=11, linestyle="")


def _line(number: int):
    from matplotlib.lines import Line2D

    return Line2D([], [], **_style(number))
