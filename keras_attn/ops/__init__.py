"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.recurrent import gru_step
from keras_attn.ops.recurrent import gru_step_reset_after
from keras_attn.ops.recurrent import project
from keras_attn.ops.scan import scan

__all__ = [
    "gru_step",
    "gru_step_reset_after",
    "project",
    "scan",
]
