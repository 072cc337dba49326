"""Alignments as heat maps."""

from collections.abc import Sequence

import numpy as np


def plot_alignments(examples: Sequence[tuple[Sequence[str], Sequence[str], np.ndarray]]):
    """A heat map for each example: source tokens from left to right, target tokens downwards.

    Args:
        examples: `(source_tokens, target_tokens, alignment)` each, the alignment (T, S) with the
            weight of source token s for target token t; the rows need not sum to 1.

    Returns:
        A `matplotlib.figure.Figure`; save it with `figure.savefig("alignment.png")`.

    Raises:
        ValueError: if there is no example or an alignment does not fit its tokens.

    Example:
        >>> figure = plot_alignments([(["a", "b"], ["x"], np.array([[0.9, 0.1]]))])

    Reference:
        Bahdanau et al. 2014, figure 3.
    """
    from matplotlib.figure import Figure

    if not examples:
        raise ValueError(f"There is nothing to plot. Received: examples={examples!r}")
    for source, target, alignment in examples:
        if np.shape(alignment) != (len(target), len(source)):
            raise ValueError(
                "An alignment has a row for every target token and a column for every source "
                f"token: {(len(target), len(source))}. Received: shape={np.shape(alignment)}"
            )
    cell = 0.27  # inches
    widths = [max(len(source), 6) * cell for source, _, _ in examples]
    heights = [max(len(target), 4) * cell + 0.9 for _, target, _ in examples]
    figure = Figure(figsize=(max(widths) + 1.6, sum(heights)), layout="constrained")
    grid = figure.subplots(len(examples), 1, squeeze=False, height_ratios=heights)
    for axes, (source, target, alignment) in zip(grid[:, 0], examples, strict=True):
        image = axes.imshow(alignment, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
        axes.set_xticks(range(len(source)), [_shown(token) for token in source])
        axes.set_yticks(range(len(target)), [_shown(token) for token in target])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.set_anchor("W")
    figure.colorbar(image, ax=grid[:, 0], label="weight", shrink=0.6 / len(examples) ** 0.5)
    return figure


def _shown(token: str) -> str:
    return "␣" if token == " " else token
