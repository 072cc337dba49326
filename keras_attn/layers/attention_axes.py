"""Attention over some axes of an input with more than three: fold it to (B, T, D) and back.

Axes that are neither attended over nor features are further axes of the batch.
"""

from keras import ops

from keras_attn.ops import masks


def resolve(attention_axes, rank: int) -> tuple[int, ...]:
    """The axes attended over, counted from the front; all but batch and features by default."""
    given = range(1, rank - 1) if attention_axes is None else attention_axes
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if not axes or len(set(axes)) < len(axes) or not all(0 < axis < rank - 1 for axis in axes):
        raise ValueError(
            "`attention_axes` must be different axes between the batch and the features of an "
            f"input with {rank} axes. Received: attention_axes={attention_axes}"
        )
    return axes


def batch_axes(axes, rank: int) -> tuple[int, ...]:
    """The axes that are neither attended over nor features."""
    return tuple(axis for axis in range(rank - 1) if axis not in axes)


def _product(sizes):
    product = 1
    for size in sizes:
        product = product * size
    return product


def fold(inputs, axes):
    """(B, ..., features) -> (B', T, features), attention axes joined in the order of `axes`."""
    rank = len(inputs.shape)
    if rank == 3:
        return inputs
    batch = batch_axes(axes, rank)
    sizes = ops.shape(inputs)
    return ops.reshape(
        ops.transpose(inputs, (*batch, *axes, rank - 1)),
        (_product(sizes[a] for a in batch), _product(sizes[a] for a in axes), sizes[-1]),
    )


def fold_padding(mask, inputs, axes, name: str):
    """A mask of the positions of `inputs`, folded as `fold` does: (B', T)."""
    if mask is None or len(inputs.shape) == 3:
        return mask
    mask = masks.padding(mask, ops.shape(inputs)[:-1], name)
    mask = ops.broadcast_to(mask, ops.shape(inputs)[:-1])
    return fold(mask[..., None], axes)[..., 0]


def align_attention_mask(mask, query_shape, value_shape, heads, axes):
    """A mask ([batch axes,] [N,] T axes, S axes) with all axes of the weights, None for None."""
    if mask is None:
        return None
    full = weights_shape(tuple(query_shape), tuple(value_shape), heads, axes)
    if len(query_shape) == 3:
        return masks.expand_attention_mask(mask, full)
    mask = masks.require_boolean(mask, "attention_mask")
    given = tuple(mask.shape)
    missing, leading = len(full) - len(given), len(given) - 2 * len(axes)
    # Like Keras: missing axes are put before the attention axes.
    shape = (*given[:leading], *(1,) * missing, *given[leading:])
    if missing < 0 or leading < 0 or not masks.fits(shape, full):
        raise ValueError(
            "`attention_mask` must have the attention axes of the query, then those of the value, "
            "after any axes of the batch and one of heads. "
            f"Received: attention_mask.shape={given}, query.shape={tuple(query_shape)}"
        )
    return masks.insert_axes(mask, leading, missing)


def fold_attention_mask(mask, query, value, heads, axes):
    """A mask ([batch axes,] [N,] T axes, S axes) as (B', N|1, T, S)."""
    if mask is None or len(query.shape) == 3:
        return mask
    mask = align_attention_mask(mask, query.shape, value.shape, heads, axes)
    batch = batch_axes(axes, len(query.shape))
    lengths = [ops.shape(tensor)[axis] for tensor in (query, value) for axis in axes]
    heads = mask.shape[len(batch)]
    batch_sizes = [ops.shape(query)[axis] for axis in batch]
    mask = ops.broadcast_to(mask, (*batch_sizes, heads, *lengths))
    count = len(axes)
    return ops.reshape(
        mask, (_product(batch_sizes), heads, _product(lengths[:count]), _product(lengths[count:]))
    )


def unfold(outputs, query, axes):
    """(B', T, ...) -> the axes of `query` before its features, then the rest."""
    rank = len(query.shape)
    if rank == 3:
        return outputs
    batch, sizes = batch_axes(axes, rank), ops.shape(query)
    order = (*batch, *axes)
    features = ops.shape(outputs)[2:]
    outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *features))
    back = [order.index(axis) for axis in range(rank - 1)]
    return ops.transpose(outputs, (*back, *range(rank - 1, rank - 1 + len(features))))


def unfold_weights(weights, query, value, axes):
    """(B', N, T, S) -> (batch axes, N, T axes, S axes)."""
    if len(query.shape) == 3:
        return weights
    shape = weights_shape(ops.shape(query), ops.shape(value), weights.shape[1], axes)
    return ops.reshape(weights, shape)


def weights_shape(query_shape, value_shape, heads, axes):
    """Shape of the weights, from the shapes of the inputs."""
    batch = [query_shape[axis] for axis in batch_axes(axes, len(query_shape))]
    batch[0] = masks.broadcast_size(query_shape[0], value_shape[0])
    lengths = [shape[axis] for shape in (query_shape, value_shape) for axis in axes]
    return (*batch, heads, *lengths)
