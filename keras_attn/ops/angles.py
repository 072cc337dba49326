"""Angles of positions, exact to float32 at any position below 2**26."""

import math

import keras
import numpy as np
from keras import ops

# A turn is 2**38 steps: the product of a position below 2**26 and a frequency of at most 1 radian
# fits in int64, and the rounding of the frequency adds up to 1e-6 radians at position 100,000.
_TURN_BITS = 38
_TURN = 1 << _TURN_BITS


def geometric_frequencies(dim: int, base: float) -> np.ndarray:
    """Radians per position of each pair of features: `base^(-2i / dim)`, i < ceil(dim / 2)."""
    if isinstance(base, bool) or not isinstance(base, int | float) or not base > 1:
        raise ValueError(f"The base of the wavelengths must be above 1. Received: base={base!r}")
    return base ** (-np.arange(0, dim, 2, dtype="float64") / dim)


def token_positions(length, start_index=0):
    """Positions of `length` tokens: (T,), or (B, T) for a `start_index` (B,)."""
    start_index = ops.convert_to_tensor(start_index)
    return start_index[..., None] + ops.cast(ops.arange(length), start_index.dtype)


def angles(positions, frequencies: np.ndarray):
    """Angles in [-pi, pi], float32: positions (...) and frequencies (F,) -> (..., F).

    `position x frequency` in float32 is off by 0.004 radians at position 100,000, for the product
    has 24 bits and most of them count whole turns. Here the product is an integer number of
    2**-38ths of a turn, of which whole turns are dropped before the rest becomes a float.

    Args:
        positions: integers, or float32 or float64 numbers, below 2**26.
        frequencies: at most 1 radian per position, float64.

    Raises:
        ValueError: positions in half precision, which cannot tell 4097 from 4096.
    """
    positions = ops.convert_to_tensor(positions)
    dtype = keras.backend.standardize_dtype(positions.dtype)
    if dtype in {"float16", "bfloat16", "bool"}:
        raise ValueError(
            "Positions must be integers or float32 numbers, for half precision cannot tell 4097 "
            f"from 4096. Received: positions.dtype={dtype}"
        )
    whole = ops.floor(positions) if "float" in dtype else positions
    angle = _whole_angles(ops.cast(whole, "int64")[..., None], frequencies)
    if "float" in dtype:
        rest = ops.cast(positions - whole, "float32")[..., None]
        angle = angle + rest * ops.cast(frequencies, "float32")
    return angle


def _whole_angles(positions, frequencies):
    steps = ops.convert_to_tensor(np.rint(frequencies / (2 * math.pi) * _TURN).astype("int64"))
    # Half a turn is added and taken away so that the result is centred on 0.
    turned = ops.bitwise_and(positions * steps + _TURN // 2, _TURN - 1) - _TURN // 2
    return ops.cast(turned, "float32") * (2 * math.pi / _TURN)
