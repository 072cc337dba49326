"""Sinusoidal position encoding."""

from keras import ops

from keras_attn.checks import require_size
from keras_attn.ops.angles import (
    angles,
    closed_geometric_frequencies,
    exact_dtype,
    geometric_frequencies,
    position_tensor,
)

LAYOUTS = ("interleaved", "concatenated", "opennmt_tf")


def sinusoid(
    positions,
    dim: int,
    layout: str = "interleaved",
    max_wavelength: float = 10000.0,
    dtype: str = "float32",
):
    """Encode positions by sines and cosines of geometrically spaced frequencies.

    `sin(p w_i)` and `cos(p w_i)` with `w_i = max_wavelength^(-2i / dim)`. The product of two
    encodings depends on the distance of their positions alone (for even `dim`).

    Args:
        positions: any shape, integers or float32 numbers.
        dim: number of features. An odd number leaves out the last cosine.
        layout: `"interleaved"` is sin, cos, sin, cos (the paper); `"concatenated"` has all sines
            first (the authors' code); `"opennmt_tf"` too, but as OpenNMT-tf trains it: the first
            position, 0 here, counts as 1, and `w_i = max_wavelength^(-i / (dim / 2 - 1))`, for an
            even `dim` of at least 4.
        max_wavelength: the longest wavelength is just below 2 pi times this, and for
            `"opennmt_tf"` equal to it.
        dtype: of the encodings. They are computed in float64 for float64, else in float32.

    Returns:
        Encodings (..., dim).

    Raises:
        ValueError: an unknown layout, a `dim` that is not positive or that the layout does not
            have, positions in half precision.

    Example:

    >>> from keras import ops
    >>> from keras_attn.ops import sinusoid
    >>> tuple(sinusoid(ops.arange(3), 4).shape)
    (3, 4)

    References:
        Vaswani et al. 2017, "Attention is all you need", section 3.5,
            https://arxiv.org/abs/1706.03762
        Klein et al. 2017, "OpenNMT", https://arxiv.org/abs/1701.02810
    """
    require_layout(layout)
    dim = require_size("dim", dim)
    exact = exact_dtype(dtype)
    positions = position_tensor(positions, exact)
    if layout == "opennmt_tf":
        positions = positions + 1
        frequencies = closed_geometric_frequencies(dim, max_wavelength)
    else:
        frequencies = geometric_frequencies(dim, max_wavelength)
    angle = angles(positions, frequencies, exact)  # (..., ceil(dim / 2))
    return ops.cast(_arranged(ops.sin(angle), ops.cos(angle), dim, layout), dtype)


def _arranged(sine, cosine, dim, layout):
    if layout != "interleaved":
        return ops.concatenate([sine, cosine[..., : dim // 2]], axis=-1)
    pairs = ops.stack([sine, cosine], axis=-1)
    return ops.reshape(pairs, (*ops.shape(sine)[:-1], 2 * sine.shape[-1]))[..., :dim]


def require_layout(layout):
    """Raise `ValueError` unless `layout` is known."""
    if layout not in LAYOUTS:
        raise ValueError(f"`layout` must be one of {LAYOUTS}. Received: layout={layout!r}")
