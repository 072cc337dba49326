"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.additive_attention import additive_attention
from keras_attn.ops.attention import dot_product_attention
from keras_attn.ops.attention_scan import attention_scan, lstm_attention_scan
from keras_attn.ops.blockwise_attention import blockwise_attention
from keras_attn.ops.filterbank import filterbanks, gaussian_filterbank
from keras_attn.ops.glimpse import glimpses
from keras_attn.ops.gru_scan import gru_scan
from keras_attn.ops.lstm_scan import lstm_scan
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy
from keras_attn.ops.recurrent import LSTMForm, gru_step, gru_step_reset_after, lstm_step, project
from keras_attn.ops.rotation import permute_features, rotate
from keras_attn.ops.scan import scan
from keras_attn.ops.score_function import (
    categorical_entropy,
    categorical_log_probability,
    gaussian_log_probability,
)
from keras_attn.ops.sinusoid import sinusoid

__all__ = [
    "LSTMForm",
    "additive_attention",
    "attention_scan",
    "blockwise_attention",
    "categorical_entropy",
    "categorical_log_probability",
    "dot_product_attention",
    "filterbanks",
    "gaussian_filterbank",
    "gaussian_log_probability",
    "glimpses",
    "gru_scan",
    "gru_step",
    "gru_step_reset_after",
    "lstm_attention_scan",
    "lstm_scan",
    "lstm_step",
    "permute_features",
    "project",
    "projected_cross_entropy",
    "rotate",
    "scan",
    "sinusoid",
]
