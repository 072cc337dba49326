"""What recurrent cells hold while they read a sequence."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.protocols import RecurrentCell

_MOST_IN_COLUMN = 10  # sequences


def states_over_time(cell: RecurrentCell, sequence) -> tuple[np.ndarray, np.ndarray]:
    """Step a recurrent cell through one sequence from states of zero.

    Args:
        cell: a built Keras cell or one of ours, `layer.cell` for instance.
        sequence: (T, D).

    Returns:
        Outputs (T, units), and the state that carries the memory (T, units): c of an LSTM, the
        output itself of a cell that has no other state.

    Example:

    >>> import numpy as np
    >>> from keras_attn.analysis import states_over_time
    >>> from keras_attn.layers import LSTM
    >>> layer = LSTM(4)
    >>> layer.build((None, None, 2))
    >>> outputs, cells = states_over_time(layer.cell, np.ones((7, 2), "float32"))
    >>> cells.shape
    (7, 4)
    """
    sequence = tf.convert_to_tensor(sequence)
    states = cell.get_initial_state(batch_size=1)
    outputs, memories = [], []
    for moment in tf.unstack(sequence):
        output, states = cell(moment[None], states)
        flat = tf.nest.flatten(states)
        outputs.append(output[0])
        memories.append(flat[min(1, len(flat) - 1)][0])
    return np.array(outputs), np.array(memories)


def plot_cell_states(
    markers: Sequence[np.ndarray],
    memories: Sequence[np.ndarray],
    readings: Sequence[np.ndarray],
    most: int = 8,
):
    """Plot what cells hold over sequences in which some moments are marked.

    A pair of panels for each sequence, the pairs below each other and, where they are many, also
    side by side. On the left the cells that change most at the marks, on the right what the network
    would answer after each moment; a dashed line at every mark.

    Args:
        markers: (T,) each, not 0 at the marks.
        memories: (T, units) each, as `states_over_time` returns them.
        readings: (T,) each, the answer after each moment.
        most: cells to show.

    Returns:
        A `matplotlib.figure.Figure`; write it with `keras_attn.analysis.save_figure`.

    Raises:
        ValueError: nothing to plot, or lengths that do not go together.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import plot_cell_states
        >>> marks, cells, readings = np.array([0, 1, 0]), np.eye(3, 2), np.arange(3)
        >>> figure = plot_cell_states([marks], [cells], [readings])
        >>> [axes.get_ylabel() for axes in figure.axes]
        ['state of the cell', 'answer after step $t$']
    """
    from matplotlib.figure import Figure

    lengths = [tuple(map(len, row)) for row in zip(markers, memories, readings, strict=True)]
    if not lengths or any(len(set(row)) != 1 or row[0] == 0 for row in lengths):
        raise ValueError(
            "Marks, memories and readings of a sequence must be equally many, one at least. "
            f"Received: lengths={lengths}"
        )
    across = math.ceil(len(lengths) / _MOST_IN_COLUMN)
    down = math.ceil(len(lengths) / across)
    figure = Figure(figsize=(10 * across, 2.4 * down), layout="constrained")
    for number, (marks, cells, reading) in enumerate(zip(markers, memories, readings, strict=True)):
        column, row = divmod(number, down)
        place = row * 2 * across + 2 * column + 1
        left, right = (figure.add_subplot(down, 2 * across, place + side) for side in (0, 1))
        marked = np.flatnonzero(marks)
        _draw_cells(left, cells, _liveliest(cells, marked, most))
        right.plot(reading, color="black", linewidth=1.5)
        is_lowest = row == down - 1 or number == len(lengths) - 1
        _finish(left, marked, "cells that change most at the marks", "state of the cell", is_lowest)
        _finish(right, marked, "answer", "answer after step $t$", is_lowest)
    figure.get_layout_engine().set(wspace=0.06)
    return figure


def _draw_cells(axes, cells: np.ndarray, chosen: np.ndarray) -> None:
    for cell in chosen:
        axes.plot(cells[:, cell], linewidth=1, label=f"{cell}")
    axes.legend(
        title="cell",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        fontsize="x-small",
        title_fontsize="x-small",
        labelspacing=0.2,
    )


def _finish(axes, marked: np.ndarray, title: str, name: str, is_lowest: bool) -> None:
    for place in marked:
        axes.axvline(place, color="gray", linestyle="--", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize="small")
    axes.set_ylabel(name, fontsize="small")
    if is_lowest:
        axes.set_xlabel("step $t$; dashed: marked")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _liveliest(cells: np.ndarray, places: np.ndarray, most: int) -> np.ndarray:
    """The columns that change most where something is marked, or, without marks, anywhere."""
    change = np.abs(np.diff(cells, axis=0, prepend=np.zeros_like(cells[:1])))
    change = change[places] if len(places) else change
    return np.argsort(-change.sum(axis=0), kind="stable")[:most]
