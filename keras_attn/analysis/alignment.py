"""Alignments as heat maps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_attn.analysis.heat_maps import (
    BAR,
    BAR_LABELS,
    MARGIN,
    NAME,
    HeatMap,
    add_axes,
    draw,
    draw_bar,
    label_columns,
    label_inches,
    label_rows,
    largest_that_fits,
    stand_upright,
    text_size,
)

GAP = 0.3  # inches between two heat maps
BESIDE, LOWEST_BAR, HIGHEST_BAR = 0.12, 0.9, 1.6  # inches: where a colour bar begins, its height
READ, WRITTEN = "read: source", "written: target"


def plot_alignments(examples: Sequence[tuple[Sequence[str], Sequence[str], np.ndarray]]):
    """A heat map for each example: source tokens from left to right, target tokens downwards.

    Each map has its own scale, from white at 0 to its largest weight, which its colour bar says: so
    a diffuse alignment is seen as well as a sharp one. Cells are smaller where there are many of
    them, and labels fewer; the maps stand below each other and, where they are many, also side by
    side.

    Args:
        examples: `(source_tokens, target_tokens, alignment)` each, the alignment (T, S) with the
            weight of source token s for target token t; the rows need not sum to 1.

    Returns:
        A `matplotlib.figure.Figure`; write it with `save_figure`, which crops it.

    Raises:
        ValueError: if there is no example or an alignment does not fit its tokens.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import plot_alignments
        >>> figure = plot_alignments([(["a", "b"], ["x"], np.array([[0.9, 0.1]]))])
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('read: source', 'written: target')

    Reference:
        Bahdanau et al. 2014, figure 3.
    """
    from matplotlib.figure import Figure

    if not examples:
        raise ValueError(f"There is nothing to plot. Received: examples={examples!r}")
    maps = [
        HeatMap(target, source, np.asarray(alignment)).require_fit()
        for source, target, alignment in examples
    ]
    cell, layout = largest_that_fits(lambda cell: _Layout.of(maps, cell))
    figure = Figure(figsize=(layout.width, layout.height))
    images = []
    for heat_map, box, (left, top) in zip(maps, layout.boxes, layout.places, strict=True):
        axes = add_axes(figure, left + box.left, top + box.top, box.map_width, box.map_height)
        images.append(draw(axes, heat_map))
        label_columns(axes, heat_map.columns, cell, box.upright, top=True)
        label_rows(axes, heat_map.rows, cell)
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(READ, fontsize=9, color="dimgray")
        axes.set_ylabel(WRITTEN, fontsize=9, color="dimgray")
    for image, box, (left, top) in zip(images, layout.boxes, layout.places, strict=True):
        left += box.left + box.map_width + BESIDE
        height = min(max(box.map_height, LOWEST_BAR), HIGHEST_BAR)
        draw_bar(add_axes(figure, left, top + box.top, BAR, height), image)
    return figure


@dataclass(frozen=True)
class _Box:
    """The inches of a map with what belongs to it: labels before and above it, a bar after it."""

    left: float
    top: float
    map_width: float
    map_height: float
    upright: bool

    @classmethod
    def of(cls, heat_map: HeatMap, cell: float) -> "_Box":
        upright = stand_upright(heat_map.columns, cell)
        line = 1.4 * text_size(cell) / 72
        above = label_inches(heat_map.columns, cell) if upright else line
        return cls(
            left=NAME + label_inches(heat_map.rows, cell) + 0.1,
            top=NAME + above + 0.1,
            map_width=cell * max(len(heat_map.columns), 1),
            map_height=cell * max(len(heat_map.rows), 1),
            upright=upright,
        )

    def stretched(self, widest: float) -> "_Box":
        """The box with a map as wide as the widest of its column, or at most four times its own."""
        return replace(self, map_width=min(widest, 4 * self.map_width))

    @property
    def height(self) -> float:
        return self.top + max(self.map_height, LOWEST_BAR)


@dataclass(frozen=True)
class _Layout:
    """Where the boxes of all maps stand, in inches from the upper left corner."""

    boxes: list[_Box]
    places: list[tuple[float, float]]
    width: float
    height: float

    @classmethod
    def of(cls, maps: Sequence[HeatMap], cell: float) -> "_Layout":
        """The boxes in as few columns as keep the picture from being much higher than wide."""
        boxes = [_Box.of(heat_map, cell) for heat_map in maps]
        for columns in range(1, len(boxes) + 1):
            layout = cls._in_columns(boxes, columns)
            if layout.height <= max(12.0, layout.width):
                break
        return layout

    @classmethod
    def _in_columns(cls, boxes: list[_Box], columns: int) -> "_Layout":
        placed, places, left, height = [], [], MARGIN, 0.0
        for column in _dealt(boxes, columns):
            before = max(box.left for box in column)  # so that the maps of a column are flush
            widest = max(box.map_width for box in column)
            top = MARGIN
            for box in column:
                placed.append(box.stretched(widest))
                places.append((left + before - box.left, top))
                top += box.height + GAP
            height = max(height, top - GAP + MARGIN)
            left += before + widest + BESIDE + BAR + BAR_LABELS + GAP
        return cls(placed, places, left - GAP + MARGIN, height)


def _dealt(boxes: list[_Box], columns: int) -> list[list[_Box]]:
    """The boxes in their order in so many columns at most, of like heights."""
    share = sum(box.height + GAP for box in boxes) / columns
    dealt: dict[int, list[_Box]] = {}
    top = 0.0
    for box in boxes:
        middle = top + (box.height + GAP) / 2
        dealt.setdefault(int(middle / share), []).append(box)
        top += box.height + GAP
    return list(dealt.values())
