"""Where alignments have their mass, in numbers."""

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
