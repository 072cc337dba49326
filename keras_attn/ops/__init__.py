"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.attention_scan import attention_scan
from keras_attn.ops.projected_cross_entropy import projected_cross_entropy
from keras_attn.ops.recurrent import LSTMForm, gru_step, gru_step_reset_after, lstm_step
from keras_attn.ops.scan import scan

__all__ = [
    "LSTMForm",
    "attention_scan",
    "gru_step",
    "gru_step_reset_after",
    "lstm_step",
    "projected_cross_entropy",
    "scan",
]
