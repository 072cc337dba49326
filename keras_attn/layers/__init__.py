"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.gru import GRU, GRUCell
from keras_attn.layers.lstm import LSTM, PeepholeLSTM
from keras_attn.layers.lstm_cell import LSTMCell, PeepholeLSTMCell

__all__ = [
    "GRU",
    "LSTM",
    "GRUCell",
    "LSTMCell",
    "PeepholeLSTM",
    "PeepholeLSTMCell",
]
