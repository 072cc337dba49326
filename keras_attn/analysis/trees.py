"""Trees as drawings."""

from collections.abc import Sequence
from dataclasses import dataclass

from keras_attn.analysis.fonts import inches, token_families
from keras_attn.data.bracketed_trees import Tree

_SIZE = 10  # points
_LEVEL = 0.36  # inches from a label to the one above it
_GAP = 0.16  # inches between words
_BETWEEN = 0.5  # inches between two trees
_LABEL, _LINE = "#1f4e8c", "0.6"


def plot_trees(trees: Sequence[Tree]):
    """Each tree with its words in a row and the labels of its brackets above them.

    A label stands over the middle of what it holds, one level above the highest of it. The trees
    stand below each other.

    Args:
        trees: one at least.

    Returns:
        A `matplotlib.figure.Figure`; write it with `save_figure`, which crops it.

    Raises:
        ValueError: if there is no tree.

    Example:
        >>> from keras_attn.analysis import plot_trees
        >>> from keras_attn.data.bracketed_trees import parse_tree
        >>> tree = parse_tree("(S (NP (NNP John)) (VP (VBZ sleeps)) (. .))")
        >>> figure = plot_trees([tree])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['John', 'sleeps', '.', 'S', 'NP', 'VP']
    """
    from matplotlib.figure import Figure

    if not trees:
        raise ValueError(f"There is no tree to draw. Received: trees={trees!r}")
    drawings = [_Drawing.of(tree) for tree in trees]
    width = max(drawing.width for drawing in drawings)
    height = sum(drawing.height for drawing in drawings) + _BETWEEN * (len(drawings) - 1)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))  # whose unit is an inch
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    top = height
    for drawing in drawings:
        drawing.draw(axes, bottom=top - drawing.height)
        top -= drawing.height + _BETWEEN
    return figure


@dataclass(frozen=True)
class _Node:
    """A label or a word: where it stands, in inches and in levels, and what it holds."""

    text: str
    x: float
    level: int
    below: tuple["_Node", ...] = ()


@dataclass(frozen=True)
class _Drawing:
    """A tree laid out: its words, then its brackets in the order in which they open."""

    words: list[_Node]
    brackets: list[_Node]
    width: float

    @classmethod
    def of(cls, tree: Tree) -> "_Drawing":
        widths = _widths(tree)
        ends = [sum(widths[: place + 1]) for place in range(len(widths))]
        words = [
            _Node(word, end - width / 2, 0)
            for word, end, width in zip(tree.words, ends, widths, strict=True)
        ]
        return cls(words, _bracket_nodes(tree, words), ends[-1])

    @property
    def height(self) -> float:
        return _LEVEL * (1 + self.brackets[0].level)

    def draw(self, axes, bottom: float) -> None:
        """Draw words, labels and what joins them, from so many inches on."""
        style = {
            "ha": "center",
            "va": "center",
            "fontsize": _SIZE,
            "family": list(token_families()),
            "parse_math": False,
        }
        for word in self.words:
            axes.text(word.x, bottom + _LEVEL / 2, word.text, **style)
        for node in self.brackets:
            y = bottom + _LEVEL * (node.level + 0.5)
            axes.text(node.x, y, node.text, color=_LABEL, weight="bold", **style)
            self._join(axes, node, y)

    def _join(self, axes, node: _Node, y: float) -> None:
        """A bar below the label from its first part to its last, and down to each of them.

        Nothing that stands between them is as high as the bar: no line crosses a label.
        """
        bar, clear = y - 0.5 * _LEVEL, 0.26 * _LEVEL
        style = {"color": _LINE, "linewidth": 0.8, "solid_capstyle": "round"}
        xs = [part.x for part in node.below]
        axes.plot([node.x, node.x], [y - clear, bar], **style)
        axes.plot([min(xs), max(xs)], [bar, bar], **style)
        for part in node.below:
            end = y - _LEVEL * (node.level - part.level) + clear
            axes.plot([part.x, part.x], [bar, end], **style)


def _widths(tree: Tree) -> list[float]:
    """The inches of each word, which the labels above it alone need too."""
    widths = [inches(word, _SIZE) for word in tree.words]
    for label, start, end in tree.brackets:
        if end == start + 1:
            widths[start] = max(widths[start], 1.15 * inches(label, _SIZE))  # which is bold
    return [width + _GAP for width in widths]


def _bracket_nodes(tree: Tree, words: list[_Node]) -> list[_Node]:
    """The nodes of the brackets; made from the last one, whose parts are made already."""
    # What stands directly below a bracket that is not made yet, by its first word.
    outer: dict[int, tuple[_Node, int]] = {
        place: (word, place + 1) for place, word in enumerate(words)
    }
    nodes = []
    for label, start, end in reversed(tree.brackets):
        below, place = [], start
        while place < end:
            node, place = outer[place]
            below.append(node)
        middle = (below[0].x + below[-1].x) / 2
        level = 1 + max(part.level for part in below)
        nodes.append(_Node(label, middle, level, tuple(below)))
        outer[start] = (nodes[-1], end)
    return nodes[::-1]
