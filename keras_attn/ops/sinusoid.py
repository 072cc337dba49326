"""Sinusoidal position encoding."""

from keras import ops

from keras_attn.ops.angles import angles, geometric_frequencies

LAYOUTS = ("interleaved", "concatenated")


def sinusoid(positions, dim: int, layout: str = "interleaved", max_wavelength: float = 10000.0):
    """Encode positions by sines and cosines of geometrically spaced frequencies.

    `sin(p w_i)` and `cos(p w_i)` with `w_i = max_wavelength^(-2i / dim)`. The product of two
    encodings depends on the distance of their positions alone (for even `dim`).

    Args:
        positions: any shape, integers or float32 numbers.
        dim: number of features. An odd number leaves out the last cosine.
        layout: `"interleaved"` is sin, cos, sin, cos (the paper); `"concatenated"` has all sines
            first (the authors' code).
        max_wavelength: the longest wavelength is just below 2 pi times this.

    Returns:
        Encodings (..., dim), float32.

    Raises:
        ValueError: an unknown layout, a `dim` that is not positive, positions in half precision.

    Example:

    >>> sinusoid(ops.arange(3), 4).shape
    TensorShape([3, 4])

    Reference:
        Vaswani et al. 2017, "Attention is all you need", section 3.5,
        https://arxiv.org/abs/1706.03762
    """
    require_layout(layout)
    if not isinstance(dim, int) or dim < 1:
        raise ValueError(f"`dim` must be a positive integer. Received: dim={dim!r}")
    angle = angles(positions, geometric_frequencies(dim, max_wavelength))  # (..., ceil(dim / 2))
    sine, cosine = ops.sin(angle), ops.cos(angle)
    if layout == "concatenated":
        return ops.concatenate([sine, cosine[..., : dim // 2]], axis=-1)
    pairs = ops.stack([sine, cosine], axis=-1)
    return ops.reshape(pairs, (*ops.shape(angle)[:-1], 2 * angle.shape[-1]))[..., :dim]


def require_layout(layout):
    """Raise `ValueError` unless `layout` is known."""
    if layout not in LAYOUTS:
        raise ValueError(f"`layout` must be one of {LAYOUTS}. Received: layout={layout!r}")
