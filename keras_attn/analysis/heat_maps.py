"""Heat maps of attention weights: their labels, their scale, and how they share one picture."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_attn.analysis.fonts import inches, token_families

LARGEST = (32.0, 24.0)
"""Inches: the width and height that a picture keeps to by smaller cells."""

CELLS = (0.27, 0.22, 0.18, 0.15, 0.12, 0.1, 0.08, 0.06, 0.045, 0.03, 0.02, 0.014, 0.01)
"""Inches: the side of a cell, the largest that fits being taken."""

LONGEST_LABEL = 48
"""Letters: a longer token is shown without its middle."""

BAR, BAR_LABELS = 0.1, 0.55  # inches: the width of a colour bar, and of what is written beside it
NAME = 0.24  # inches, for the name of an axis
MARGIN = 0.12  # inches around everything
_SMALLEST_TEXT = 4.5  # points
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True)
class HeatMap:
    """Weights (T, S) with the tokens of their rows and columns.

    Args:
        rows: T tokens, from top to bottom.
        columns: S tokens, from left to right.
        weights: (T, S).
    """

    rows: Sequence[str]
    columns: Sequence[str]
    weights: np.ndarray

    def require_fit(self) -> "HeatMap":
        """Return this, or raise `ValueError` if the weights are not those of the tokens."""
        expected = len(self.rows), len(self.columns)
        if np.shape(self.weights) != expected:
            raise ValueError(
                "An alignment has a row for every target token and a column for every source "
                f"token: {expected}. Received: shape={np.shape(self.weights)}"
            )
        return self


def text_size(cell: float) -> float:
    """The points of a label beside cells of that side, in inches."""
    return min(10.0, max(_SMALLEST_TEXT, 37.0 * cell))


def stand_upright(tokens: Iterable[str], cell: float) -> bool:
    """Whether the tokens of columns stand upright, for lying they would overlap."""
    size = text_size(cell)
    return any(inches(shown(each), size) > 0.9 * cell for each in tokens if each != "</s>")


def label_inches(tokens: Iterable[str], cell: float) -> float:
    """The length of the longest label."""
    return max((inches(shown(token), text_size(cell)) for token in tokens), default=0.0)


def shown(token: str) -> str:
    """A token as a label: nothing that cannot be seen, nothing that breaks the line.

    `▁`, with which subwords write the space before a word, is left out at the beginning and a space
    elsewhere.
    """
    if not token.strip(" ▁"):
        return "␣" * len(token)
    token = token.removeprefix("▁").replace("▁", " ")
    token = "".join(_visible(character) for character in token)
    if len(token) <= LONGEST_LABEL:
        return token
    half = LONGEST_LABEL // 2
    return f"{token[:half]}…{token[-half + 1 :]}"


def largest_that_fits(layout_of: Callable, most: float = CELLS[0]) -> tuple:
    """The layout of the largest cell whose picture is at most `LARGEST`: `(cell, layout)`.

    Where titles and bars alone need more than that, it is as little more as can be.

    Args:
        layout_of: a function of a cell that returns a layout with a `width` and a `height`.
        most: the largest cell to try.
    """
    smallest = layout_of(CELLS[-1])
    width, height = max(LARGEST[0], smallest.width), max(LARGEST[1], smallest.height)
    for cell in (cell for cell in CELLS if cell <= most):
        layout = layout_of(cell)
        if layout.width <= width and layout.height <= height:
            break
    return cell, layout


def draw(axes, heat_map: HeatMap):
    """Draw the weights, white at 0 and darkest at their largest, and return the image."""
    weights = np.asarray(heat_map.weights, float)
    if not weights.size:
        axes.set_xlim(-0.5, max(len(heat_map.columns), 1) - 0.5)
        axes.set_ylim(max(len(heat_map.rows), 1) - 0.5, -0.5)
        weights = np.zeros((1, 1))
    largest = np.nanmax(weights, initial=0.0)
    largest = float(largest) if np.isfinite(largest) and largest > 0 else 1.0
    axes.tick_params(length=0)
    return axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=largest, aspect="auto")


def draw_bar(bar, image, name: str = "weight") -> None:
    """Draw the colour bar of an image, which says how much the darkest is.

    Args:
        bar: its axes.
        image: what `draw` returned.
        name: what it measures.
    """
    ticks = [0.0, image.norm.vmax / 2, image.norm.vmax]
    bar.figure.colorbar(image, cax=bar, ticks=ticks)
    bar.set_yticklabels([f"{value:.2g}" for value in ticks], fontsize=7)
    bar.tick_params(length=2, pad=2)
    bar.set_ylabel(name, fontsize=7, labelpad=4)


def label_columns(axes, tokens: Sequence[str], cell: float, upright: bool, top: bool) -> None:
    """Write the tokens of the columns above or below a map, as many as find room."""
    every = _every(tokens, cell, axes.bbox.width / axes.figure.dpi)
    axes.set_xticks(
        range(0, len(tokens), every),
        [shown(token) for token in tokens[::every]],
        rotation=90 if upright else 0,
        **_style(cell),
    )
    axes.tick_params(axis="x", top=False, labeltop=top, labelbottom=not top, pad=2)


def label_rows(axes, tokens: Sequence[str], cell: float) -> None:
    """Write the tokens of the rows on the left of a map, as many as find room."""
    every = _every(tokens, cell, axes.bbox.height / axes.figure.dpi)
    labels = [shown(token) for token in tokens[::every]]
    axes.set_yticks(range(0, len(tokens), every), labels, **_style(cell))
    axes.tick_params(axis="y", pad=2)


def add_axes(figure, left: float, top: float, width: float, height: float):
    """Axes by the inches from the left and from the top of a figure."""
    whole_width, whole_height = figure.get_size_inches()
    return figure.add_axes(
        (
            left / whole_width,
            1 - (top + height) / whole_height,
            width / whole_width,
            height / whole_height,
        )
    )


def _every(tokens: Sequence[str], cell: float, room: float) -> int:
    """Of how many tokens one has a place for its label, on an axis of so many inches."""
    return math.ceil(1.15 * text_size(cell) / 72 * max(len(tokens), 1) / room)


def _style(cell: float) -> dict:
    # A dollar is a dollar, and begins no formula.
    return {"family": list(token_families()), "size": text_size(cell), "parse_math": False}


def _visible(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    is_unseen = unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs", "Zl", "Zp")
    return f"U+{ord(character):04X}" if is_unseen else character
