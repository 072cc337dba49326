"""Settings of layers and models that are refused, each in one sentence."""

import numbers


def is_whole(value) -> bool:
    """Whether a value is an integer of Python or NumPy; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def require_size(name: str, size) -> int:
    """Return a size or a number of things, or raise `ValueError` if it is no positive integer."""
    if not is_whole(size) or size <= 0:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={size!r}")
    return int(size)


def require_rate(name: str, rate) -> float:
    """Return a dropout rate, or raise `ValueError` if it does not lie in [0, 1)."""
    if not isinstance(rate, numbers.Real) or isinstance(rate, bool) or not 0 <= rate < 1:
        raise ValueError(
            f"`{name}` is the fraction of units to drop, at least 0 and below 1. "
            f"Received: {name}={rate!r}"
        )
    return float(rate)


def require_share(name: str, share) -> float:
    """Return a share, or raise `ValueError` if it does not lie in [0, 1]."""
    is_number = isinstance(share, numbers.Real) and not isinstance(share, bool)
    if not is_number or not 0 <= share <= 1:
        raise ValueError(
            f"`{name}` is a share, at least 0 and at most 1. Received: {name}={share!r}"
        )
    return float(share)


def require_choice(name: str, value, choices):
    """Return `value`, or raise `ValueError` if it is none of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}. Received: {name}={value!r}")
    return value
