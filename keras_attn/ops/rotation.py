"""Rotary position embedding: pairs of features turn with the position."""

import math

import keras
import numpy as np
from keras import ops

from keras_attn.ops.angles import angles, geometric_frequencies

CONVENTIONS = ("half_split", "interleaved")
_SCALING_KEYS = {
    "linear": {"factor"},
    "ntk": {"factor"},
    "yarn": {"factor", "original_length", "beta_fast", "beta_slow"},
}


def rotate(
    x,
    positions,
    base: float = 10000.0,
    convention: str = "half_split",
    scaling: dict | None = None,
    rotary_dim: int | None = None,
):
    """Turn each pair of features by an angle in proportion to its position.

    `(x_a, x_b) -> (x_a cos - x_b sin, x_a sin + x_b cos)` with the angle `position base^(-2i / d)`
    for pair i, so that the product of a rotated query and a rotated key depends on the distance of
    their positions alone. The angles and the rotation are float32 whatever the dtype of `x`.

    Args:
        x: (B, T, d) or (B, T, N, d).
        positions: (T,) or (B, T), integers or float32 numbers.
        base: wavelengths run from 2 pi to 2 pi base positions.
        convention: `"half_split"` pairs features i and i + d / 2 (GPT-NeoX, Hugging Face's Llama),
            `"interleaved"` 2i and 2i + 1 (the paper, GPT-J, Meta's Llama).
        scaling: how positions beyond the training length are brought back. `{"type": "linear",
            "factor": f}` divides positions by f; `"ntk"` raises the base to base f^(d / (d - 2));
            `{"type": "yarn", "factor": f, "original_length": n, "beta_fast": 32, "beta_slow": 1}`
            divides only frequencies that turn fewer than `beta_slow` times in n positions, blends
            up to `beta_fast` turns, and scales cosine and sine by 0.1 ln f + 1.
        rotary_dim: rotate the first `rotary_dim` features only. Defaults to all of them.

    Returns:
        As `x`.

    Raises:
        ValueError: an odd number of features to rotate, an unknown convention or scaling, positions
            in half precision or of the wrong shape.

    Example:

    >>> rotate(ops.ones((1, 2, 4)), ops.arange(2)).shape
    TensorShape([1, 2, 4])

    References:
        Su et al. 2021, "RoFormer", https://arxiv.org/abs/2104.09864
        Chen et al. 2023, linear scaling, https://arxiv.org/abs/2306.15595
        Peng et al. 2023, "YaRN", https://arxiv.org/abs/2309.00071
    """
    x = ops.convert_to_tensor(x)
    _require_shapes(x, positions)
    _require_convention(convention)
    rotary_dim = _rotary_dim(x.shape[-1], rotary_dim)
    frequencies, amplitude = scaled_frequencies(rotary_dim, base, scaling)
    angle = angles(positions, frequencies)  # (T, d / 2) or (B, T, d / 2)
    if len(x.shape) == 4:
        angle = angle[..., None, :]
    exact = "float64" if keras.backend.standardize_dtype(x.dtype) == "float64" else "float32"
    turning, angle = ops.cast(x[..., :rotary_dim], exact), ops.cast(angle, exact)
    turned = _turn(turning, ops.cos(angle) * amplitude, ops.sin(angle) * amplitude, convention)
    turned = ops.cast(turned, x.dtype)
    if rotary_dim == x.shape[-1]:
        return turned
    return ops.concatenate([turned, x[..., rotary_dim:]], axis=-1)


def _turn(x, cos, sin, convention):
    if convention == "half_split":
        first, second = ops.split(x, 2, axis=-1)
        return ops.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = ops.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return ops.reshape(pairs, ops.shape(x))


def scaled_frequencies(dim: int, base: float, scaling: dict | None) -> tuple[np.ndarray, float]:
    """Radians per position of each pair (dim / 2,), and the factor of cosine and sine."""
    if scaling is None:
        return geometric_frequencies(dim, base), 1.0
    kind, factor = _require_scaling(scaling)
    if kind == "linear":
        return geometric_frequencies(dim, base) / factor, 1.0
    if kind == "ntk":
        # Two features have one frequency, base^0: no base changes it.
        exponent = dim / (dim - 2) if dim > 2 else 0.0
        return geometric_frequencies(dim, base * factor**exponent), 1.0
    frequencies = geometric_frequencies(dim, base)
    kept = _yarn_kept(dim, base, scaling)
    return frequencies * kept + frequencies / factor * (1 - kept), 0.1 * math.log(factor) + 1.0


def _yarn_kept(dim, base, scaling):
    """How much of each frequency YaRN keeps: 1 for fast pairs, 0 for slow ones, a ramp between."""

    def pair_that_turns(times):
        positions_per_radian = scaling["original_length"] / (times * 2 * math.pi)
        return dim * math.log(positions_per_radian) / (2 * math.log(base))

    # Rounded outwards to whole pairs, as the authors' code does.
    first = max(math.floor(pair_that_turns(scaling.get("beta_fast", 32))), 0)
    last = min(math.ceil(pair_that_turns(scaling.get("beta_slow", 1))), dim - 1)
    ramp = (np.arange(dim // 2) - first) / max(last - first, 0.001)
    return 1 - np.clip(ramp, 0, 1)


def permute_features(weights, source: str, target: str, rotary_dim: int | None = None):
    """Reorder the features of a query or key projection from one convention to the other.

    With both projections reordered, attention under `target` gives what it gave under `source`.

    Args:
        weights: a kernel (D, N, d) or a bias (N, d), the head's features last.
        source: convention the weights were trained with.
        target: convention they are to be used with.
        rotary_dim: as in `rotate`.

    Returns:
        As `weights`.

    Raises:
        ValueError: an unknown convention or an odd number of features to rotate.

    Example:

    >>> permute_features(ops.arange(4), "half_split", "interleaved")
    <tf.Tensor: shape=(4,), dtype=int32, numpy=array([0, 2, 1, 3], dtype=int32)>
    """
    _require_convention(source)
    _require_convention(target)
    weights = ops.convert_to_tensor(weights)
    rotary_dim = _rotary_dim(weights.shape[-1], rotary_dim)
    order = np.arange(weights.shape[-1])
    if source != target:
        pairs = order[:rotary_dim].reshape((2, -1) if source == "half_split" else (-1, 2))
        order[:rotary_dim] = pairs.T.ravel()
    return ops.take(weights, order, axis=-1)


def require_rotation(base, convention, scaling, rotary_dim):
    """Raise `ValueError` for what `rotate` would refuse before its features are known."""
    _require_convention(convention)
    geometric_frequencies(2, base)
    if scaling is not None:
        _require_scaling(scaling)
    if rotary_dim is not None:
        _rotary_dim(rotary_dim, rotary_dim)


def _require_convention(convention):
    if convention not in CONVENTIONS:
        raise ValueError(
            f"`convention` must be one of {CONVENTIONS}. Received: convention={convention!r}"
        )


def _rotary_dim(features, rotary_dim):
    rotary_dim = features if rotary_dim is None else rotary_dim
    if not isinstance(rotary_dim, int) or not 0 < rotary_dim <= features or rotary_dim % 2:
        raise ValueError(
            "Features turn in pairs: the number to rotate must be even, positive and at most the "
            f"{features} there are. Received: rotary_dim={rotary_dim}"
        )
    return rotary_dim


def _require_scaling(scaling):
    """Kind and factor of a scaling, or `ValueError`."""
    kind = scaling.get("type") if isinstance(scaling, dict) else None
    if kind not in _SCALING_KEYS:
        raise ValueError(
            "`scaling` must be None or a dict whose 'type' is one of "
            f"{tuple(_SCALING_KEYS)}. Received: scaling={scaling!r}"
        )
    needed = {"factor", "original_length"} & _SCALING_KEYS[kind]
    unknown = set(scaling) - _SCALING_KEYS[kind] - {"type"}
    numbers = [value for key, value in scaling.items() if key != "type"]
    positive = all(isinstance(number, int | float) and number > 0 for number in numbers)
    if not needed <= set(scaling) or unknown or not positive:
        raise ValueError(
            f"Scaling of type '{kind}' takes the positive numbers {sorted(_SCALING_KEYS[kind])}, "
            f"and needs {sorted(needed)}. Received: scaling={scaling!r}"
        )
    return kind, float(scaling["factor"])


def _require_shapes(x, positions):
    shape, given = tuple(x.shape), tuple(np.shape(positions))
    fits = len(shape) in {3, 4} and len(given) in {1, 2}
    pairs = zip(given[::-1], shape[1::-1], strict=False)
    if not fits or any(size not in {1, None, full} and full is not None for size, full in pairs):
        raise ValueError(
            "x must have the shape (B, T, d) or (B, T, N, d), and the positions (T,) or (B, T). "
            f"Received: x.shape={shape}, positions.shape={given}"
        )
