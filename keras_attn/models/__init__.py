"""The published architectures as functional-API models, one file a paper."""

from keras_attn.models.gnmt import GNMT
from keras_attn.models.lstm_parser import LSTMParser
from keras_attn.models.recurrent_attention import RecurrentAttention
from keras_attn.models.rnn_encoder_decoder import RNNEncoderDecoder
from keras_attn.models.rnn_search import RNNSearch
from keras_attn.models.show_attend_tell import ShowAttendTell
from keras_attn.models.transformer import Transformer
from keras_attn.saved import load_model

__all__ = [
    "GNMT",
    "LSTMParser",
    "RNNEncoderDecoder",
    "RNNSearch",
    "RecurrentAttention",
    "ShowAttendTell",
    "Transformer",
    "load_model",
]
