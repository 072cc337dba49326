"""What recurrent cells hold while they read a sequence."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.protocols import RecurrentCell


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

    A row for each sequence. On the left the cells that change most at the marks, on the right what
    the network would answer after each moment; a dashed line at every mark.

    Args:
        markers: (T,) each, not 0 at the marks.
        memories: (T, units) each, as `states_over_time` returns them.
        readings: (T,) each, the answer after each moment.
        most: cells to show.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: nothing to plot, or lengths that do not go together.
    """
    from matplotlib.figure import Figure

    lengths = [tuple(map(len, row)) for row in zip(markers, memories, readings, strict=True)]
    if not lengths or any(len(set(row)) != 1 or row[0] == 0 for row in lengths):
        raise ValueError(
            "Marks, memories and readings of a sequence must be equally many, one at least. "
            f"Received: lengths={lengths}"
        )
    figure = Figure(figsize=(10, 2.4 * len(lengths)), layout="constrained")
    rows = figure.subplots(len(lengths), 2, squeeze=False)
    for (left, right), marks, cells, reading in zip(rows, markers, memories, readings, strict=True):
        places = np.flatnonzero(marks)
        left.plot(cells[:, _liveliest(cells, places, most)], linewidth=1)
        right.plot(reading, color="black", linewidth=1.5)
        for axes, title in ((left, "cells that change most at the marks"), (right, "answer")):
            for place in places:
                axes.axvline(place, color="gray", linestyle="--", linewidth=0.8)
            axes.set_title(title, loc="left", fontsize="small")
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
    for axes in rows[-1]:
        axes.set_xlabel("step $t$")
    return figure


def _liveliest(cells: np.ndarray, places: np.ndarray, most: int) -> np.ndarray:
    """The columns that change most where something is marked, or, without marks, anywhere."""
    change = np.abs(np.diff(cells, axis=0, prepend=np.zeros_like(cells[:1])))
    change = change[places] if len(places) else change
    return np.argsort(-change.sum(axis=0), kind="stable")[:most]
