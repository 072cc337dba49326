"""Many lines answered in batches of like length, the answers in the order of the lines."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from keras_attn.recipes.recipe import AnsweringModel
from keras_attn.serving.answers import Answer

Line = TypeVar("Line", str, bytes)


def answered(
    model: AnsweringModel,
    lines: Iterable[Line],
    batch_size: int = 64,
    *,
    window: int = 2_048,
    count: Callable[[int], None] = lambda number: None,
) -> Iterator[tuple[Line, Answer]]:
    """Each line with its answer, in order.

    Lines of like length are answered together, for a batch takes as long as its longest line. That
    takes lines that are read ahead.

    Args:
        model: that answers.
        lines: to be answered; read once.
        batch_size: how many are answered together.
        window: how many are read ahead, and held.
        count: called with the number of lines of each batch that is done.
    """
    lines = iter(lines)
    while held := list(itertools.islice(lines, max(window, 1))):
        found = _found(model, held, batch_size, count)
        for row, line in enumerate(held):
            yield line, found[row]


def _found(
    model: AnsweringModel, held: list[Line], batch_size: int, count: Callable[[int], None]
) -> dict[int, Answer]:
    """The answers by the rows of the lines."""
    found: dict[int, Answer] = {}
    by_length = sorted(range(len(held)), key=lambda row: len(held[row]))
    for start in range(0, len(held), batch_size):
        rows = by_length[start : start + batch_size]
        found.update(zip(rows, model.answers([held[row] for row in rows]), strict=True))
        count(len(rows))
    return found
