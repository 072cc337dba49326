"""Keras layers: weights and configuration around the functions of `keras_attn.ops`."""

from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.attention_cell import AttentionCell
from keras_attn.layers.attention_rnn import AttentionRNN
from keras_attn.layers.feed_forward import FeedForward
from keras_attn.layers.filterbank_attention import FilterbankRead, FilterbankWrite
from keras_attn.layers.glimpse_sensor import GlimpseSensor
from keras_attn.layers.gru import GRU, GRUCell
from keras_attn.layers.length_mask import LengthMask
from keras_attn.layers.location_sampler import LocationSampler
from keras_attn.layers.lstm import LSTM, PeepholeLSTM
from keras_attn.layers.lstm_cell import LSTMCell, PeepholeLSTMCell
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.maxout import Maxout
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.position_embedding import PositionEmbedding
from keras_attn.layers.rotary_embedding import RotaryEmbedding
from keras_attn.layers.sinusoidal_embedding import SinusoidalEmbedding
from keras_attn.layers.transformer_decoder_block import TransformerDecoderBlock
from keras_attn.layers.transformer_encoder_block import TransformerEncoderBlock

__all__ = [
    "GRU",
    "LSTM",
    "AdditiveAttention",
    "AttentionCell",
    "AttentionRNN",
    "FeedForward",
    "FilterbankRead",
    "FilterbankWrite",
    "GRUCell",
    "GlimpseSensor",
    "LSTMCell",
    "LengthMask",
    "LocationSampler",
    "LuongAttention",
    "Maxout",
    "MultiHeadAttention",
    "PeepholeLSTM",
    "PeepholeLSTMCell",
    "PositionEmbedding",
    "RotaryEmbedding",
    "SinusoidalEmbedding",
    "TransformerDecoderBlock",
    "TransformerEncoderBlock",
]
