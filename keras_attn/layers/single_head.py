"""What the attention layers with one head, additive and multiplicative, do alike.

Each is a `keras_attn.protocols.Attention`, which is all that a recurrent decoder needs of it.
"""

import keras
from keras import ops

from keras_attn.layers.shape_checks import require_features, require_one_batch
from keras_attn.ops import masks
from keras_attn.ops.additive_attention import scores_shape


def call(
    layer,
    query,
    value,
    key,
    query_mask,
    value_mask,
    key_mask,
    attention_mask,
    use_causal_mask,
    training,
):
    """Keras' attention call in terms of the layer's `project_memory` and `_attend`."""
    key = value if key is None else key
    require_inputs(layer, query.shape, value.shape, key.shape)
    query, value, key = (ops.cast(x, layer.compute_dtype) for x in (query, value, key))
    query_mask, mask = _masks(query, key, query_mask, value_mask, key_mask, attention_mask)
    # Cleared before it is projected: a hidden NaN must not reach the kernels' gradients either.
    keys = layer.project_memory(key, masks.seen_keys(mask))
    query = masks.clear_hidden(query, query_mask)
    context, weights = layer._attend(query, keys, value, mask, training, causal=use_causal_mask)
    return masks.clear_hidden(context, query_mask), masks.clear_hidden(weights, query_mask)


def require_inputs(layer, query_shape, value_shape, key_shape=None):
    """Raise `ValueError` for shapes that the layer cannot be called with."""
    key_shape = value_shape if key_shape is None else key_shape
    features = layer.features if layer.built else {"query": None, "key": None}
    require_features("query", query_shape, features["query"], rank=3)
    require_features("value", value_shape, rank=3)
    require_features("key", key_shape, features["key"], rank=3)
    if len({value_shape[1], key_shape[1]} - {None}) > 1:
        raise ValueError(
            "Keys and values must be equally many. "
            f"Received: value.shape={tuple(value_shape)}, key.shape={tuple(key_shape)}"
        )
    require_one_batch(query=query_shape, value=value_shape, key=key_shape)


def _masks(query, key, query_mask, value_mask, key_mask, attention_mask):
    """The mask of the queries, (B, T), and of the keys, broadcastable to (B, T, S), or None."""
    shape = scores_shape(query, key)
    query_mask = masks.padding(query_mask, shape[:2], "query_mask")
    return query_mask, masks.of_call(shape, value_mask, key_mask, attention_mask)


def attend_step_or_sequence(attend, query, keys, values, mask, training):
    """Call `attend` with queries (B, T, D), or with one query (B, D) as a sequence of one."""
    if len(query.shape) == 3:
        return attend(query, keys, values, mask, training)
    context, weights = attend(query[:, None], keys, values, mask, training)
    return context[:, 0], weights[:, 0]


def output_shapes(query_shape, value_shape):
    """Shapes of the contexts (B, T, Dv) and the weights (B, T, S)."""
    batch = masks.broadcast_size(query_shape[0], value_shape[0])
    return (
        (batch, query_shape[1], value_shape[-1]),
        (batch, query_shape[1], value_shape[1]),
    )


def output_spec(layer, query, value, key, all_masks, return_attention_scores):
    """Symbolic outputs of `call`, which refuses the same inputs and masks."""
    key = value if key is None else key
    require_inputs(layer, query.shape, value.shape, key.shape)
    _masks(query, key, *all_masks)
    specs = tuple(
        keras.KerasTensor(shape, dtype=layer.compute_dtype)
        for shape in output_shapes(query.shape, value.shape)
    )
    return specs if return_attention_scores else specs[0]


def dropout_of_call(layer, training) -> dict:
    """The dropout of the weights, as the functions of `ops` take it."""
    if not layer.dropout or not training:
        return {}
    return {"dropout": layer.dropout, "seed": layer.seed_generator.next()}
