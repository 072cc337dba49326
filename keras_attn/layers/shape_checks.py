"""Shapes of inputs that a layer refuses, each in one sentence."""


def require_features(name: str, shape, features: int | None = None, rank: int | None = None):
    """Raise `ValueError` unless a shape has known features, and those that it should have.

    Args:
        name: what the caller calls the tensor.
        shape: of the tensor.
        features: what the layer was built for, None where it is not built.
        rank: how many axes there must be; at least two where it is None.
    """
    shape = tuple(shape)
    if len(shape) < 2 or (rank is not None and len(shape) != rank):
        axes = "(batch, ..., features)" if rank is None else "(batch, length, features)"
        raise ValueError(f"`{name}` must have the shape {axes}. Received: {name}.shape={shape}")
    if shape[-1] is None:
        raise ValueError(f"`{name}` must have a known size. Received: {name}.shape={shape}")
    if features is not None and shape[-1] != features:
        raise ValueError(
            f"The layer was built for a `{name}` of {features} features. "
            f"Received: {name}.shape={shape}"
        )


def require_one_batch(**shapes):
    """Raise `ValueError` unless the batch sizes are equal where they are known, or 1."""
    if len({shape[0] for shape in shapes.values()} - {None, 1}) > 1:
        received = ", ".join(f"{name}.shape={tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"The batch sizes must be equal, or 1. Received: {received}")
