"""Alignments as heat maps."""

import unicodedata
import warnings
from collections.abc import Sequence

import numpy as np

from keras_attn.analysis.fonts import token_families

CELL = 0.27  # inches, the side of a cell
GAP = 0.3  # inches between two heat maps


def plot_alignments(examples: Sequence[tuple[Sequence[str], Sequence[str], np.ndarray]]):
    """A heat map for each example: source tokens from left to right, target tokens downwards.

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
    figure = Figure()
    top = 0.0  # inches, downwards from the first heat map
    for source, target, alignment in examples:
        top += _label_height(source)
        axes = _add_axes(figure, top, len(source), len(target))
        image = axes.imshow(alignment, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        families = list(token_families())
        axes.set_xticks(
            range(len(source)),
            [_shown(token) for token in source],
            rotation=_rotation(source),
            family=families,
        )
        axes.set_yticks(range(len(target)), [_shown(token) for token in target], family=families)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        top += len(target) * CELL + GAP
    _add_colorbar(figure, image, max(len(source) for source, _, _ in examples))
    return figure


def save_figure(figure, file, file_format: str) -> None:
    """Write a figure, cropped to what is on it, as "png" or "svg".

    The text of an SVG stays text, to be searched and shown in the reader's fonts. Characters that
    no font of this machine has are one warning.

    Args:
        figure: a `matplotlib.figure.Figure`.
        file: a path, or an open file of bytes.
        file_format: "png" or "svg".

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import plot_alignments, save_figure
        >>> figure = plot_alignments([(["a", "b"], ["x"], np.array([[0.9, 0.1]]))])
        >>> save_figure(figure, "alignment.png", "png")
    """
    import matplotlib

    with (
        matplotlib.rc_context({"svg.fonttype": "none"}),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        figure.savefig(file, format=file_format, dpi=160, bbox_inches="tight", pad_inches=0.15)
    if file_format != "svg" and any("Glyph" in str(warning.message) for warning in caught):
        warnings.warn(
            "No font of this machine has some of the characters, which show as boxes; install one "
            "(Debian: fonts-noto-cjk) or write an .svg.",
            stacklevel=2,
        )


def _add_axes(figure, top: float, columns: int, rows: int):
    """Axes with square cells, their upper left corner `top` inches below that of the figure."""
    width, height = figure.get_size_inches()
    return figure.add_axes(
        (
            0.0,
            1 - (top + rows * CELL) / height,
            columns * CELL / width,
            rows * CELL / height,
        )
    )


def _add_colorbar(figure, image, columns: int) -> None:
    width, height = figure.get_size_inches()
    bar = figure.add_axes(
        (((columns + 1) * CELL) / width, 1 - 1.9 / height, 0.1 / width, 1.5 / height)
    )
    figure.colorbar(image, cax=bar, label="weight")


def _rotation(tokens: Sequence[str]) -> int:
    """Tokens of more than a character or two stand upright, so that they do not overlap."""
    return 90 if max((_columns(token) for token in tokens if token != "</s>"), default=0) > 2 else 0


def _label_height(tokens: Sequence[str]) -> float:
    longest = max(map(_columns, tokens), default=0) if _rotation(tokens) else 1
    return 0.2 + 0.09 * longest


def _columns(token: str) -> int:
    """How wide a token is, a letter of the Latin script being one column."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in token)


def _shown(token: str) -> str:
    return "␣" if token == " " else token
