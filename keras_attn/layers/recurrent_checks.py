"""What the recurrent cells and layers refuse, each in one sentence."""

import numbers


def require_units(units) -> int:
    """Return `units` as an int, or raise `ValueError` if it is not a positive integer."""
    integral = isinstance(units, numbers.Integral) and not isinstance(units, bool)
    if not integral or units <= 0:
        raise ValueError(f"`units` must be a positive integer. Received: units={units!r}")
    return int(units)


def require_rate(name: str, rate) -> float:
    """Return a dropout rate, or raise `ValueError` if it does not lie in [0, 1)."""
    if not isinstance(rate, numbers.Real) or not 0 <= rate < 1:
        raise ValueError(
            f"`{name}` is the fraction of units to drop, at least 0 and below 1. "
            f"Received: {name}={rate!r}"
        )
    return float(rate)


def require_choice(name: str, value, choices):
    """Return `value`, or raise `ValueError` if it is none of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}. Received: {name}={value!r}")
    return value


def require_sequences(shape):
    """Raise `ValueError` unless the shape is that of a batch of sequences of vectors."""
    if len(shape) != 3:
        raise ValueError(
            "A recurrent layer takes sequences of vectors, (batch, time, features). "
            f"Received: sequences.shape={tuple(shape)}"
        )
    if shape[-1] is None:
        raise ValueError(
            "A recurrent layer must know the number of features of its input when it is built. "
            f"Received: sequences.shape={tuple(shape)}"
        )


def require_states(shapes, sizes, batch_size, required: int):
    """Raise `ValueError` unless the shapes are those of the states of a cell.

    Args:
        shapes: list of the shapes of the states given.
        sizes: list of the sizes of all states of the cell.
        batch_size: of the sequences, None if unknown.
        required: how many states must be given at least.
    """
    shapes = [tuple(shape) for shape in shapes]
    if not required <= len(shapes) <= len(sizes):
        raise ValueError(
            f"`initial_state` must hold {len(sizes)} states of sizes {list(sizes)}. "
            f"Received: initial_state of {len(shapes)} tensors of shapes {shapes}"
        )
    for shape, size in zip(shapes, sizes, strict=False):
        size_fits = len(shape) == 2 and shape[1] in (None, size)
        if not size_fits or (shape[0] != batch_size and None not in (shape[0], batch_size)):
            wanted = [(batch_size, size) for size in sizes[: len(shapes)]]
            raise ValueError(
                f"The states of `initial_state` must have the shapes {wanted}. "
                f"Received: initial_state of shapes {shapes}"
            )
