"""Rotary position embedding: pairs of features turn with the position."""

import keras
import numpy as np
from keras import ops

from keras_attn.checks import is_whole
from keras_attn.ops.angles import (
    along_axis_1,
    angles,
    exact_dtype,
    position_tensor,
    require_positions,
)
from keras_attn.ops.rotary_scaling import read_scaling, scaled_frequencies

CONVENTIONS = ("half_split", "interleaved")


def rotate(
    x,
    positions,
    base: float = 10000.0,
    convention: str = "half_split",
    scaling: dict | None = None,
    rotary_dim: int | None = None,
):
    """Turn each pair of features by an angle in proportion to its position.

    `(x_a, x_b) -> (x_a cos - x_b sin, x_a sin + x_b cos)` with the angle `position w_i` for pair i
    and its frequency `w_i = base^(-2i / d)`, so that the product of a rotated query and a rotated
    key depends on the distance of their positions alone. The angles and the rotation are float64
    for `x` in float64, else float32.

    `scaling` brings positions beyond the training length n back. It is a dict with a `"type"`:

    - `"linear"` with `factor` f: `w_i / f`.
    - `"ntk"` with `factor`: the base becomes `base f^(d / (d - 2))`.
    - `"dynamic"` with `factor` and `original_length` n: as `"ntk"` with the factor
      `f L / n - (f - 1)` for a row of positions whose largest is `L - 1 >= n`, and 1 for shorter
      rows. A row goes by its own length, never by its neighbours in the batch. What was rotated
      before, such as the keys in a cache, keeps the frequencies of the length at that time, as in
      Hugging Face's models: beyond n, cached steps are not what the whole sequence at once gives.
    - `"yarn"` with `factor`, `original_length`, `beta_fast` (32) and `beta_slow` (1): `w_i / f` for
      pairs that turn fewer than `beta_slow` times in n positions, `w_i` for those that turn more
      than `beta_fast` times, and a ramp between, whose ends are whole pairs unless `truncate` is
      False. Cosine and sine are multiplied by `attention_factor`, by default `m(1)` with
      `m(s) = 0.1 s ln f + 1`, or `m(mscale) / m(mscale_all_dim)` where both are given.
    - `"llama3"` with `factor`, `original_length`, `low_freq_factor` and `high_freq_factor`:
      `w_i / f` for pairs that turn fewer than `low_freq_factor` times in n positions, `w_i` for
      those that turn more than `high_freq_factor` times, and a ramp over the turns between.
    - `"longrope"` with `original_length`, `short_factor`, `long_factor` and `factor` f: w_i divided
      by `short_factor[i]`, or for rows longer than n by `long_factor[i]` (what `"dynamic"` says of
      rows and caches holds here too). Cosine and sine are multiplied by `attention_factor`, by
      default `sqrt(1 + ln f / ln n)`.
    - `"default"`: as it is.

    The dicts in Hugging Face's configurations, `rope_scaling` and `rope_parameters`, may be given
    as they are: `rope_type` is `type`, `original_max_position_embeddings` is `original_length`, and
    `rope_theta` is the base if `base` is left at its default.

    Args:
        x: (B, T, d) or (B, T, ..., d), such as (B, T, N, d) for N heads.
        positions: (T,) or (B, T), integers or float32 numbers.
        base: wavelengths run from 2 pi to 2 pi base positions.
        convention: `"half_split"` pairs features i and i + d / 2 (GPT-NeoX, Hugging Face's Llama),
            `"interleaved"` 2i and 2i + 1 (the paper, GPT-J, Meta's Llama).
        scaling: a dict as above, or None.
        rotary_dim: rotate the first `rotary_dim` features only. Defaults to all of them.

    Returns:
        As `x`.

    Raises:
        ValueError: an odd number of features to rotate, an unknown convention, an unknown,
            incomplete or contradictory scaling, positions in half precision or of the wrong shape.

    Example:

    >>> from keras import ops
    >>> from keras_attn.ops import rotate
    >>> tuple(rotate(ops.ones((1, 2, 4)), ops.arange(2)).shape)
    (1, 2, 4)

    References:
        Su et al. 2021, "RoFormer", https://arxiv.org/abs/2104.09864
        Chen et al. 2023, linear scaling, https://arxiv.org/abs/2306.15595
        Peng et al. 2023, "YaRN", and NTK scaling, https://arxiv.org/abs/2309.00071
        Grattafiori et al. 2024, "The Llama 3 herd of models", https://arxiv.org/abs/2407.21783
        Ding et al. 2024, "LongRoPE", https://arxiv.org/abs/2402.13753
    """
    x = ops.convert_to_tensor(x)
    if not keras.backend.is_float_dtype(x.dtype):
        x = ops.cast(x, keras.config.floatx())
    require_positions(x.shape, positions)
    _require_convention(convention)
    rotary_dim = turning_features(x.shape[-1], rotary_dim)
    scaling = read_scaling(scaling, base)
    exact = exact_dtype(x.dtype)
    positions = position_tensor(positions, exact)
    frequencies = scaled_frequencies(rotary_dim, scaling, positions)
    angle = along_axis_1(angles(positions, frequencies, exact), len(x.shape))  # (..., d / 2)
    cos, sin = ops.cos(angle) * scaling.amplitude, ops.sin(angle) * scaling.amplitude
    turned = _turn(ops.cast(x[..., :rotary_dim], exact), cos, sin, convention)
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

    >>> from keras import ops
    >>> from keras_attn.ops import permute_features
    >>> permute_features(ops.arange(4), "half_split", "interleaved")
    <tf.Tensor: shape=(4,), dtype=int32, numpy=array([0, 2, 1, 3], dtype=int32)>
    """
    _require_convention(source)
    _require_convention(target)
    weights = ops.convert_to_tensor(weights)
    rotary_dim = turning_features(weights.shape[-1], rotary_dim)
    order = np.arange(weights.shape[-1])
    if source != target:
        pairs = order[:rotary_dim].reshape((2, -1) if source == "half_split" else (-1, 2))
        order[:rotary_dim] = pairs.T.ravel()
    return ops.take(weights, order, axis=-1)


def require_rotation(base, convention, scaling, rotary_dim):
    """Raise `ValueError` for what `rotate` would refuse before its features are known."""
    _require_convention(convention)
    read_scaling(scaling, base)
    if rotary_dim is not None:
        turning_features(rotary_dim, rotary_dim)


def _require_convention(convention):
    if convention not in CONVENTIONS:
        raise ValueError(
            f"`convention` must be one of {CONVENTIONS}. Received: convention={convention!r}"
        )


def turning_features(features, rotary_dim):
    """How many of the features turn, or `ValueError` if they cannot."""
    rotary_dim = features if rotary_dim is None else rotary_dim
    if not is_whole(rotary_dim) or not 0 < rotary_dim <= features or rotary_dim % 2:
        raise ValueError(
            "Features turn in pairs: the number to rotate must be even, positive and at most the "
            f"{features} there are. Received: rotary_dim={rotary_dim}"
        )
    return int(rotary_dim)
