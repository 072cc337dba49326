"""Pure functions of tensors: no state, no layers."""

from keras_attn.ops.recurrent import gru_step, gru_step_reset_after, project
from keras_attn.ops.scan import scan

__all__ = [
    "gru_step",
    "gru_step_reset_after",
    "project",
    "scan",
]
