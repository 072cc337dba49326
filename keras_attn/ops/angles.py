"""Positions and their angles, exact to the last digits far from position 0."""

import math

import keras
import numpy as np
from keras import ops

# A turn is 2**38 steps: the product of a position up to 2**26 and a frequency of at most 1 radian
# fits in int64, and the rounding of the frequency adds up to 1e-6 radians at position 100,000.
_TURN_BITS = 38
_TURN = 1 << _TURN_BITS


def geometric_frequencies(dim: int, base: float) -> np.ndarray:
    """Radians per position of each pair of features: `base^(-2i / dim)`, i < ceil(dim / 2)."""
    _require_base(base)
    return base ** (-np.arange(0, dim, 2, dtype="float64") / dim)


def closed_geometric_frequencies(dim: int, base: float) -> np.ndarray:
    """Frequencies from 1 down to `1 / base` itself: `base^(-i / (dim / 2 - 1))`, i < dim / 2."""
    _require_base(base)
    if dim % 2 or dim < 4:
        raise ValueError(
            "Frequencies from 1 to 1 / base need an even number of features, at least 4. "
            f"Received: dim={dim}"
        )
    return base ** (-np.arange(dim // 2, dtype="float64") / (dim // 2 - 1))


def _require_base(base):
    if isinstance(base, bool) or not isinstance(base, int | float) or not base > 1:
        raise ValueError(f"The base of the wavelengths must be above 1. Received: base={base!r}")


def exact_dtype(dtype) -> str:
    """The dtype of angles for a computation in `dtype`: float64 for float64, else float32."""
    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"


def position_tensor(positions, dtype: str = "float32"):
    """Positions as a tensor: integers as int64, floats as they are, Python floats in `dtype`.

    Raises:
        ValueError: positions in half precision, which cannot tell 4097 from 4096, or booleans.
    """
    written = keras.tree.flatten(positions)
    if not hasattr(positions, "dtype") and any(isinstance(number, float) for number in written):
        return ops.convert_to_tensor(positions, dtype)
    positions = ops.convert_to_tensor(positions)
    given = keras.backend.standardize_dtype(positions.dtype)
    if given in {"float16", "bfloat16", "bool"}:
        raise ValueError(
            "Positions must be integers or float32 numbers, for half precision cannot tell 4097 "
            f"from 4096. Received: positions.dtype={given}"
        )
    return positions if "float" in given else ops.cast(positions, "int64")


def token_positions(length, start_index=0, dtype: str = "float32"):
    """Positions of `length` tokens: (T,), or (B, T) for a `start_index` (B,).

    They are a NumPy array where they are known before anything runs; `dtype` is for a `start_index`
    that is a Python float.
    """
    if isinstance(length, int) and isinstance(start_index, int):
        return np.arange(start_index, start_index + length)
    start_index = position_tensor(start_index, dtype)
    return start_index[..., None] + ops.cast(ops.arange(length), start_index.dtype)


def require_positions(shape, positions, name: str = "x"):
    """Raise `ValueError` unless the positions are those of axis 1 of a tensor of this shape."""
    shape, given = tuple(shape), tuple(np.shape(positions))
    fits = len(shape) >= 3 and len(given) in {1, 2}
    pairs = zip(given[::-1], shape[1::-1], strict=False)
    if not fits or any(size not in {1, None, full} and full is not None for size, full in pairs):
        raise ValueError(
            f"{name} must have the shape (B, T, d) or (B, T, ..., d), and the positions (T,) or "
            f"(B, T). Received: {name}.shape={shape}, positions.shape={given}"
        )


def require_sequences_of_vectors(shape, name: str = "inputs"):
    """Raise `ValueError` unless a shape is (B, T, d) or (B, T, ..., d)."""
    if len(shape) < 3:
        raise ValueError(
            f"{name} must have the shape (B, T, d) or (B, T, ..., d). "
            f"Received: {name}.shape={tuple(shape)}"
        )


def along_axis_1(encoding, rank: int):
    """Give an encoding (T, d) or (B, T, d) the axes to go with (B, T, ..., d) of this rank."""
    for _ in range(rank - 3):
        encoding = encoding[..., None, :]
    return encoding


def angles(positions, frequencies, dtype: str = "float32"):
    """Angles: positions (...) and frequencies (F,) or (..., F) -> (..., F).

    `position x frequency` in float32 is off by 0.004 radians at position 100,000, for the product
    has 24 bits and most of them count whole turns. For float32 the product is therefore an integer
    number of 2**-38ths of a turn, of which whole turns are dropped before the rest becomes a float:
    angles in [-pi, pi], exact below position 2**26. In float64 the product is exact enough.

    Args:
        positions: integers, or float32 or float64 numbers, up to 2**26.
        frequencies: at most 1 radian per position, float64.
        dtype: float32 or float64.

    Raises:
        ValueError: positions in half precision, which cannot tell 4097 from 4096.
    """
    positions = position_tensor(positions, dtype)
    if dtype == "float64":
        return ops.cast(positions, "float64")[..., None] * frequencies
    if "int" in keras.backend.standardize_dtype(positions.dtype):
        return _whole_angles(positions[..., None], frequencies)
    whole = ops.floor(positions)
    angle = _whole_angles(ops.cast(whole, "int64")[..., None], frequencies)
    rest = ops.cast(positions - whole, "float32")[..., None]
    return angle + rest * ops.cast(frequencies, "float32")


def _whole_angles(positions, frequencies):
    steps = ops.convert_to_tensor(frequencies / (2 * math.pi) * _TURN)
    steps = ops.cast(ops.round(steps), "int64")
    # Half a turn is added and taken away so that the result is centred on 0.
    turned = ops.bitwise_and(positions * steps + _TURN // 2, _TURN - 1) - _TURN // 2
    return ops.cast(turned, "float32") * (2 * math.pi / _TURN)
