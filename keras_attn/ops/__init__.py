"""Pure functions of tensors: no state, no Keras layers."""

from keras_attn.ops.additive_attention import additive_attention
from keras_attn.ops.attention import dot_product_attention

__all__ = ["additive_attention", "dot_product_attention"]
