"""What attention heads do: which of them are positional, copying or uniform, and their maps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_attn.analysis.heat_maps import (
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
)

POSITIONAL = 0.5  # mean weight at one distance
COPYING = 0.5  # mean weight at keys that are the query's own token
UNIFORM = 0.9  # mean entropy as a share of the largest possible

_TITLE, _ABOVE, _BESIDE = 1.5, 0.4, 0.6  # inches for a title, above a map and beside it


@dataclass(frozen=True)
class HeadScores:
    """How a head attends on average over sentences.

    Attributes:
        offset: the distance from query to key, -1 the token before, that has the most weight.
        positional: the mean weight at that distance, over the queries that have a key there.
        copying: the mean weight at keys with the same token as the query, the query's own position
            left out, over the queries that have such a key; NaN if no query has.
        uniform: the mean entropy over the logarithm of the number of visible keys, over the queries
            with at least two.

    Example:
        >>> from keras_attn.analysis import HeadScores
        >>> HeadScores(offset=-1, positional=0.8, copying=0.1, uniform=0.2).described
        'positional -1: 0.80'
    """

    offset: int
    positional: float
    copying: float
    uniform: float

    @property
    def kind(self) -> str:
        """`positional`, `copying`, `uniform` or `other`, the first that its score reaches."""
        if self.positional >= POSITIONAL:
            return "positional"
        if self.copying >= COPYING:
            return "copying"
        return "uniform" if self.uniform >= UNIFORM else "other"

    @property
    def described(self) -> str:
        """The kind with the score that decided it."""
        number = {
            "positional": f" {self.offset:+d}: {self.positional:.2f}",
            "copying": f": {self.copying:.2f}",
            "uniform": f": {self.uniform:.2f}",
            "other": f", most at {self.offset:+d}: {self.positional:.2f}",
        }
        return self.kind + number[self.kind]


def score_heads(
    examples: Iterable[tuple[Sequence, Sequence, np.ndarray]], longest_offset: int = 8
) -> list[HeadScores]:
    """Score the heads of one attention over sentences.

    Args:
        examples: `(query_tokens, key_tokens, weights)` for each sentence without padding, the
            weights (N, T, S). Tokens are compared, so that ids do as well as texts. A key with no
            weight in any head counts as hidden from the query.
        longest_offset: distances from `-longest_offset` to `longest_offset` are looked at.

    Returns:
        A `HeadScores` for each head.

    Raises:
        ValueError: if there is no sentence, or weights do not fit their tokens.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import score_heads
        >>> before = np.eye(4, k=-1)[None]  # one head, (1, 4, 4)
        >>> before[0, 0, 0] = 1.0
        >>> score_heads([("abcd", "abcd", before)])[0]
        HeadScores(offset=-1, positional=1.0, copying=nan, uniform=0.0)

    Reference:
        Voita et al. 2019, "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy
        Lifting, the Rest Can Be Pruned".
    """
    offsets = np.arange(-longest_offset, longest_offset + 1)
    totals = None
    for queries, keys, weights in examples:
        weights = np.asarray(weights, np.float64)
        if weights.ndim != 3 or weights.shape[1:] != (len(queries), len(keys)):
            raise ValueError(
                "Weights have the axes heads, queries, keys: "
                f"(N, {len(queries)}, {len(keys)}). Received: weights.shape={weights.shape}"
            )
        found = _Totals.of(queries, keys, weights, offsets)
        totals = found if totals is None else totals + found
    if totals is None:
        raise ValueError("There is no sentence to score heads with. Received: examples=[]")
    return totals.scores(offsets)


@dataclass
class _Totals:
    """Sums over queries and how many of them, for every head: (N, offsets), (N,) or a number."""

    at_offset: np.ndarray
    with_offset: np.ndarray
    copied: np.ndarray
    with_copy: float
    entropy: np.ndarray
    with_choice: float

    @classmethod
    def of(cls, queries, keys, weights, offsets) -> "_Totals":
        visible = (weights > 0).any(axis=0)  # (T, S)
        distance = np.arange(len(keys))[None] - np.arange(len(queries))[:, None]
        at_offset = [(weights * (distance == offset)).sum((1, 2)) for offset in offsets]
        with_offset = [((distance == offset) & visible).sum() for offset in offsets]
        same = np.array([[query == key for key in keys] for query in queries], bool)
        same = same.reshape(distance.shape) & (distance != 0) & visible
        choices = visible.sum(axis=1)  # (T,)
        entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(axis=2)  # (N, T)
        shares = entropy[:, choices > 1] / np.log(choices[choices > 1])
        return cls(
            np.stack(at_offset, axis=1),
            np.array(with_offset, float),
            (weights * same).sum((1, 2)),
            float(same.any(axis=1).sum()),
            shares.sum(axis=1),
            float((choices > 1).sum()),
        )

    def __add__(self, other: "_Totals") -> "_Totals":
        return _Totals(
            *(mine + others for mine, others in zip(_values(self), _values(other), strict=True))
        )

    def scores(self, offsets) -> list[HeadScores]:
        # A distance that few queries have says little: it must occur half as often as any other.
        usual = self.with_offset >= 0.5 * self.with_offset.max()
        means = np.where(usual, self.at_offset / np.maximum(self.with_offset, 1), -1.0)
        best = means.argmax(axis=1)
        return [
            HeadScores(
                int(offsets[place]),
                round(float(means[head, place]), 6),
                round(float(self.copied[head] / self.with_copy), 6) if self.with_copy else np.nan,
                round(float(self.entropy[head] / max(self.with_choice, 1.0)), 6),
            )
            for head, place in enumerate(best)
        ]


def _values(totals: _Totals) -> list:
    return list(vars(totals).values())


def plot_heads(
    queries: Sequence[str],
    keys: Sequence[str],
    blocks: Sequence[np.ndarray],
    scores: Sequence[Sequence[HeadScores]] | None = None,
):
    """The maps of all heads for a sentence: a row for each block, a column for each head.

    Each map has its own scale, from white at 0 to its largest weight, which its colour bar says: so
    a diffuse head is seen as well as a sharp one. Maps are smaller where there are many.

    Args:
        queries, keys: the tokens, from top to bottom and from left to right.
        blocks: weights (N, T, S) of each block.
        scores: what `score_heads` found for each block; the titles say it.

    Returns:
        A `matplotlib.figure.Figure`; write it with `keras_attn.analysis.save_figure`.

    Raises:
        ValueError: if there is no block, or weights do not fit the tokens.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import plot_heads, score_heads
        >>> weights = np.eye(4)[None]  # one head that copies nothing and looks at itself
        >>> scores = score_heads([("abcd", "abcd", weights)])
        >>> figure = plot_heads("abcd", "abcd", [weights], [scores])
        >>> figure.axes[0].get_title()
        'block 1, head 1\\npositional +0: 1.00'

    Reference:
        Vaswani et al. 2017, figures 3 to 5.
    """
    from matplotlib.figure import Figure

    _require_weights(queries, keys, blocks)
    heads = max(len(weights) for weights in blocks)
    _, layout = largest_that_fits(
        lambda cell: _Grid.of(queries, keys, len(blocks), heads, cell), most=0.15
    )
    figure = Figure(figsize=(layout.width, layout.height))
    for row, weights in enumerate(blocks):
        for column, of_head in enumerate(weights):
            left, top = layout.place(row, column)
            axes = add_axes(figure, left, top, layout.map_width, layout.map_height)
            bar = add_axes(figure, left + layout.map_width + 0.05, top, 0.06, layout.map_height)
            image = draw(axes, HeatMap(queries, keys, of_head))
            # The last bar of a row says for all what they measure.
            draw_bar(bar, image, "weight" if column == len(weights) - 1 else "")
            axes.set_title(_title(row, column, scores), fontsize=7)
            is_lowest, is_leftmost = row == len(blocks) - 1, column == 0
            label_columns(axes, keys if is_lowest else [], layout.key, upright=True, top=False)
            label_rows(axes, queries if is_leftmost else [], layout.query)
            axes.set_xlabel("key" if is_lowest else "", fontsize=8, color="dimgray")
            axes.set_ylabel("query" if is_leftmost else "", fontsize=8, color="dimgray")
    return figure


def _require_weights(queries, keys, blocks) -> None:
    if not len(blocks):
        raise ValueError("There is no block to plot. Received: blocks=[]")
    for weights in blocks:
        if np.ndim(weights) != 3 or np.shape(weights)[1:] != (len(queries), len(keys)):
            raise ValueError(
                f"Weights have the axes heads, queries, keys: (N, {len(queries)}, {len(keys)}). "
                f"Received: weights.shape={np.shape(weights)}"
            )


@dataclass(frozen=True)
class _Grid:
    """Where the maps of all heads stand, in inches: labels on the left and below all of them."""

    left: float
    map_width: float
    map_height: float
    query: float  # the height of a row
    key: float  # the width of a column
    width: float
    height: float

    @classmethod
    def of(cls, queries, keys, blocks: int, heads: int, cell: float) -> "_Grid":
        # Wide enough for its title, and high enough for its bar.
        map_width, map_height = max(_TITLE, cell * len(keys)), max(0.7, cell * len(queries))
        query, key = map_height / max(len(queries), 1), map_width / max(len(keys), 1)
        left = MARGIN + NAME + label_inches(queries, query) + 0.1
        below = label_inches(keys, key) + 0.1 + NAME + MARGIN
        return cls(
            left,
            map_width,
            map_height,
            query,
            key,
            width=left + heads * (map_width + _BESIDE) + 0.2,
            height=MARGIN + blocks * (map_height + _ABOVE) + below,
        )

    def place(self, block: int, head: int) -> tuple[float, float]:
        """The left and the top of a map."""
        left = self.left + head * (self.map_width + _BESIDE)
        return left, MARGIN + _ABOVE - 0.05 + block * (self.map_height + _ABOVE)


def _title(block: int, head: int, scores) -> str:
    title = f"block {block + 1}, head {head + 1}"
    return title if scores is None else f"{title}\n{scores[block][head].described}"
