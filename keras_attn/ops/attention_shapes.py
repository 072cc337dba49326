"""Which shapes of queries, keys and values go together."""

from keras import ops

from keras_attn.ops import masks


def scores_shape(query, key):
    """(B, N, T, S) of queries (B|1, T, N, d) and keys (B|1, S, Nkv, d)."""
    return (
        masks.broadcast_batch(query, key),
        query.shape[2],
        ops.shape(query)[1],
        ops.shape(key)[1],
    )


def require_shapes(query, key, value):
    """Raise `ValueError` unless queries, keys and values go together."""
    shapes = tuple(query.shape), tuple(key.shape), tuple(value.shape)
    received = "Received: query.shape={}, key.shape={}, value.shape={}".format(*shapes)
    if any(len(shape) != 4 for shape in shapes):
        raise ValueError(
            f"query, key and value must have the axes (batch, length, heads, features). {received}"
        )
    query_shape, key_shape, value_shape = shapes
    if query_shape[3] != key_shape[3]:
        raise ValueError(f"Queries and keys must have equally many features. {received}")
    if key_shape[2] != value_shape[2] or query_shape[2] % key_shape[2]:
        raise ValueError(
            "Keys and values must have equally many heads, and the query heads must be a multiple "
            f"of them. {received}"
        )
    if None not in (key_shape[1], value_shape[1]) and key_shape[1] != value_shape[1]:
        raise ValueError(f"Keys and values must be equally many. {received}")
    batches = {shape[0] for shape in shapes} - {None, 1}
    if len(batches) > 1:
        raise ValueError(f"The batch sizes must be equal, or 1 for the queries. {received}")
