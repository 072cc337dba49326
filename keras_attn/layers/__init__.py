"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.gru import GRU
from keras_attn.layers.gru import GRUCell

__all__ = [
    "GRU",
    "GRUCell",
]
