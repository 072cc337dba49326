"""Calls of multi-head attention that are refused, eager and symbolic ones alike."""

from keras_attn.layers import attention_axes as axes_of
from keras_attn.layers.shape_checks import require_features
from keras_attn.ops import cache as kv_cache
from keras_attn.ops import masks


def require_inputs(layer, query_shape, value_shape, key_shape) -> tuple[int, ...]:
    """The axes attended over, or `ValueError` where the inputs do not go together."""
    shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
    shapes = {name: tuple(shape) for name, shape in shapes.items()}
    query, value, key = shapes.values()
    received = f"Received: query.shape={query}, value.shape={value}, key.shape={key}"
    rank = len(query)
    if rank < 3 or any(len(shape) != rank for shape in shapes.values()):
        raise ValueError(
            "query, value and key must have equally many axes, three at least: (batch, length, "
            f"features). {received}"
        )
    axes = axes_of.resolve(layer.attention_axes, rank)
    if not all(_agree(value[axis], key[axis]) for axis in axes):
        raise ValueError(f"Keys and values must be equally many. {received}")
    others = axes_of.batch_axes(axes, rank) if rank > 3 else ()
    if not all(_agree(query[axis], value[axis], key[axis]) for axis in others):
        raise ValueError(f"All axes that are not attended over must be equal. {received}")
    if len({shape[0] for shape in shapes.values()} - {None, 1}) > 1:
        raise ValueError(f"The batch sizes must be equal, or 1 for the queries. {received}")
    for name, shape in shapes.items():
        require_features(name, shape, layer.features[name] if layer.built else None)
    return axes


def _agree(*sizes) -> bool:
    return len(set(sizes) - {None}) < 2


def require_call(layer, query, value, key, query_mask, key_masks, cache, cache_position):
    """The axes attended over, or `ValueError` for what the layer cannot be called with."""
    axes = require_inputs(layer, query.shape, value.shape, key.shape)
    _require_padding(query_mask, query, "query_mask")
    if cache is not None or cache_position is not None:
        _require_cache(layer, query, value, cache, cache_position)
        scores_shape = (cache.shape[0], layer.num_heads, query.shape[1], None)
        kv_cache.require_masks(scores_shape, **key_masks)
        return axes
    _require_padding(key_masks["value_mask"], value, "value_mask")
    _require_padding(key_masks["key_mask"], key, "key_mask")
    axes_of.align_attention_mask(
        key_masks["attention_mask"], query.shape, value.shape, layer.num_heads, axes
    )
    return axes


def _require_padding(mask, tensor, name):
    masks.padding(mask, tuple(tensor.shape)[:-1], name)


def _require_cache(layer, query, value, cache, cache_position):
    if len(query.shape) != 3:
        raise ValueError(
            "A cache goes with inputs (batch, length, features). "
            f"Received: query.shape={tuple(query.shape)}"
        )
    kv_cache.require_cache(
        cache,
        cache_position,
        query.shape[1],
        layer.num_key_value_heads,
        layer.key_dim,
        layer.value_dim,
    )
    if not _agree(query.shape[1], value.shape[1]) or not _agree(value.shape[0], cache.shape[0]):
        raise ValueError(
            "With a cache, queries, keys and values are those of the same new tokens, for each "
            f"example of the cache. Received: query.shape={tuple(query.shape)}, "
            f"value.shape={tuple(value.shape)}, cache.shape={tuple(cache.shape)}"
        )


def require_projectable(layer, memory):
    """Raise `ValueError` unless the layer can project a memory ahead of the queries."""
    if layer.rotary is not None or layer.window is not None or layer.value_dim != layer.key_dim:
        raise ValueError(
            "A projected memory takes queries of no known position, so that neither `rotary` "
            "nor `window` may be set, and `value_dim` must be `key_dim`. Received: "
            f"rotary={layer.rotary}, window={layer.window}, value_dim={layer.value_dim}"
        )
    require_features("memory", memory.shape, layer.features["key"], rank=3)


def require_projected_memory(layer, memory):
    """Raise `ValueError` unless a memory is one that `project_memory` of the layer returns."""
    given = tuple(memory.shape)
    heads, features = layer.num_key_value_heads, layer.key_dim
    if len(given) != 5 or given[1] != 2 or given[3:] != (heads, features):
        raise ValueError(
            "A projected memory comes from `project_memory` of the same layer and has the shape "
            f"(batch, 2, length, {heads}, {features}). Received: memory_cache.shape={given}"
        )
