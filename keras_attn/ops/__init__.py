"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.attention_scan import attention_scan
from keras_attn.ops.gru_scan import gru_scan
from keras_attn.ops.lstm_scan import lstm_scan
from keras_attn.ops.recurrent import LSTMForm, gru_step, gru_step_reset_after, lstm_step, project
from keras_attn.ops.scan import scan

__all__ = [
    "LSTMForm",
    "attention_scan",
    "gru_scan",
    "gru_step",
    "gru_step_reset_after",
    "lstm_scan",
    "lstm_step",
    "project",
    "scan",
]
