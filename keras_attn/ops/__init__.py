"""Pure functions of tensors: no state, no Keras layers."""

from keras_attn.ops.additive_attention import additive_attention
from keras_attn.ops.attention import dot_product_attention
from keras_attn.ops.rotation import permute_features, rotate
from keras_attn.ops.sinusoid import sinusoid

__all__ = [
    "additive_attention",
    "dot_product_attention",
    "permute_features",
    "rotate",
    "sinusoid",
]
