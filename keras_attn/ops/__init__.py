"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.recurrent import LSTMForm, gru_step, gru_step_reset_after, lstm_step
from keras_attn.ops.scan import scan

__all__ = [
    "LSTMForm",
    "gru_step",
    "gru_step_reset_after",
    "lstm_step",
    "scan",
]
