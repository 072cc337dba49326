"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.additive_attention import AdditiveAttention

__all__ = ["AdditiveAttention"]
