"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.rotary_embedding import RotaryEmbedding
from keras_attn.layers.sinusoidal_embedding import SinusoidalEmbedding

__all__ = [
    "AdditiveAttention",
    "MultiHeadAttention",
    "RotaryEmbedding",
    "SinusoidalEmbedding",
]
