"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.attention_rnn import AttentionCell, AttentionRNN
from keras_attn.layers.gru import GRU, GRUCell
from keras_attn.layers.length_mask import LengthMask
from keras_attn.layers.lstm import LSTM, PeepholeLSTM
from keras_attn.layers.lstm_cell import LSTMCell, PeepholeLSTMCell
from keras_attn.layers.maxout import Maxout

__all__ = [
    "GRU",
    "LSTM",
    "AdditiveAttention",
    "AttentionCell",
    "AttentionRNN",
    "GRUCell",
    "LSTMCell",
    "LengthMask",
    "Maxout",
    "PeepholeLSTM",
    "PeepholeLSTMCell",
]
