"""What the attention layers with one head, additive and multiplicative, do alike.

Each offers `project_memory(memory, mask=None) -> keys` and
`attend(query, keys, values, mask=None) -> (context, weights)`, which is all that a recurrent
decoder needs of it.
"""

import keras

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
):
    """Keras' attention call in terms of the layer's `project_memory` and `_attend`."""
    key = value if key is None else key
    _require_rank(query=query, value=value, key=key)
    shape = scores_shape(query, key)
    mask = masks.of_call(shape, value_mask, key_mask, attention_mask)
    query_mask = masks.padding(query_mask, shape[:2], "query_mask")
    # Cleared before it is projected: a hidden NaN must not reach the kernels' gradients either.
    keys = layer.project_memory(key, masks.seen_keys(mask))
    context, weights = layer._attend(
        masks.clear_hidden(query, query_mask), keys, value, mask, causal=use_causal_mask
    )
    return masks.clear_hidden(context, query_mask), masks.clear_hidden(weights, query_mask)


def _require_rank(**tensors):
    for name, tensor in tensors.items():
        if len(tensor.shape) != 3:
            raise ValueError(
                f"`{name}` must have the shape (batch, length, features). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )


def attend_step_or_sequence(attend, query, keys, values, mask):
    """Call `attend` with queries (B, T, D), or with one query (B, D) as a sequence of one."""
    if len(query.shape) == 3:
        return attend(query, keys, values, mask)
    context, weights = attend(query[:, None], keys, values, mask)
    return context[:, 0], weights[:, 0]


def output_shapes(query_shape, value_shape):
    """Shapes of the contexts (B, T, Dv) and the weights (B, T, S)."""
    batch = masks.broadcast_size(query_shape[0], value_shape[0])
    return (
        (batch, query_shape[1], value_shape[-1]),
        (batch, query_shape[1], value_shape[1]),
    )


def output_spec(layer, query, value, return_attention_scores):
    specs = tuple(
        keras.KerasTensor(shape, dtype=layer.compute_dtype)
        for shape in output_shapes(query.shape, value.shape)
    )
    return specs if return_attention_scores else specs[0]
