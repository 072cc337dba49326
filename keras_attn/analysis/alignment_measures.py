"""Where alignments have their mass, in numbers."""

import itertools
from collections.abc import Sequence

import numpy as np


def mass_on(alignment: np.ndarray, positions: np.ndarray) -> float:
    """The share of an alignment's mass on the positions that ought to be looked at.

    `sum_ts a_ts p_ts / sum_ts a_ts`

    Args:
        alignment: (T, S), the weight of source position s for target position t.
        positions: boolean (T, S), True where target t ought to look.

    Returns:
        Between 0 and 1; 0 if there is no mass at all.

    Raises:
        ValueError: if the shapes differ.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import mass_on
        >>> mass_on(np.array([[0.75, 0.25], [0.5, 0.5]]), np.eye(2, dtype=bool))
        0.625
    """
    if np.shape(alignment) != np.shape(positions):
        raise ValueError(
            "Each weight of an alignment is looked at or not: both have one shape. Received: "
            f"alignment.shape={np.shape(alignment)}, positions.shape={np.shape(positions)}"
        )
    total = np.sum(alignment)
    return float(np.sum(np.where(positions, alignment, 0.0)) / total) if total else 0.0


def near_diagonal(shape: tuple[int, int], within: float = 2.0) -> np.ndarray:
    """True where source position s is near the place that target position t has on the diagonal.

    `|s - t (S - 1) / (T - 1)| <= within`: the diagonal goes from the first tokens of both sides to
    the last ones, however long they are; of a single target token it is the first position.

    Args:
        shape: (T, S).
        within: so many source positions.

    Returns:
        Boolean (T, S), for `mass_on`.

    Example:
        >>> from keras_attn.analysis import near_diagonal
        >>> near_diagonal((2, 4), within=1).astype(int).tolist()
        [[1, 1, 0, 0], [0, 0, 1, 1]]
    """
    targets, sources = shape
    slope = (sources - 1) / max(targets - 1, 1)
    places = slope * np.arange(targets)[:, None]  # (T, 1)
    return np.abs(np.arange(sources) - places) <= within


def of_words(
    source: Sequence[str], target: Sequence[str], alignment: np.ndarray
) -> tuple[list[str], list[str], np.ndarray]:
    """The alignment of words from that of subwords, the end tokens left out.

    A word begins at a subword that begins with "▁", and an end token is one. What is looked at is
    the sum over the subwords of a source word; what looks is the mean over those of a target word.

    Args:
        source, target: subwords as `TextModel.alignments` gives them.
        alignment: (T, S).

    Returns:
        The words of both sides and their alignment (words, words).

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import of_words
        >>> of_words(["▁a", "▁d", "og", "</s>"], ["▁chien", "</s>"],
        ...          np.array([[0.0, 0.5, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0]]))
        (['a', 'dog'], ['chien'], array([[0.  , 0.75]]))
    """
    (source, columns), (target, rows) = _words(source), _words(target)  # (S, words), (T, words)
    return source, target, rows.T @ alignment @ columns / rows.sum(axis=0)[:, None]


def crossings(alignment: np.ndarray, least: float = 0.5) -> list[tuple[int, int, int]]:
    """Where the next word of the target looks further back in the source: the order changes.

    Args:
        alignment: (T, S), of words.
        least: weight with which each of the two must look at its word; at least 0.5, so that it
            looks at one word only.

    Returns:
        `(t, s, r)` of each place: target t looks at s, and t + 1 at r < s.

    Raises:
        ValueError: if a word might look at two words with that weight.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import crossings
        >>> crossings(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
        [(1, 2, 1)]
    """
    if least < 0.5:
        raise ValueError(f"A word looks at one place by half or more. Received: least={least}")
    if not np.size(alignment):
        return []
    looked_at = np.where(np.max(alignment, axis=1) >= least, np.argmax(alignment, axis=1), -1)
    pairs = enumerate(itertools.pairwise(looked_at.tolist()))
    return [(t, s, r) for t, (s, r) in pairs if 0 <= r < s]


def joined(alignment: np.ndarray, least: float = 0.25) -> list[tuple[int, int]]:
    """Where a word of the target looks at two neighbours of the source, which become one.

    Args:
        alignment: (T, S), of words.
        least: weight of each of the two.

    Returns:
        `(t, s)` of each place: target t looks at s and s + 1, and no other target word looks at
        either of them with that weight.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import joined
        >>> joined(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
        [(0, 0)]
    """
    looks = alignment >= least
    alone = looks & (looks.sum(axis=0) == 1)
    return [(int(t), int(s)) for t, s in np.argwhere(alone[:, :-1] & alone[:, 1:])]


def _words(subwords: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Words, and which subwords each consists of: boolean (subwords, words) as 0 and 1."""
    words, members = [], []
    for place, subword in enumerate(subwords):
        if subword == "</s>":
            continue
        if subword.startswith("▁") or not words:
            words.append("")
        words[-1] += subword.removeprefix("▁")
        members.append((place, len(words) - 1))
    membership = np.zeros((len(subwords), len(words)))
    for place, word in members:
        membership[place, word] = 1.0
    return words, membership
