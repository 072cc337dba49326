"""The training loop, checkpoints and run directories."""

from keras_attn.training.checkpoint import load_checkpoint, save_checkpoint
from keras_attn.training.fit import fit, token_objective
from keras_attn.training.interruption import StopOnSignal
from keras_attn.training.progress import ProgressBar
from keras_attn.training.run_directory import RunDirectory

__all__ = [
    "ProgressBar",
    "RunDirectory",
    "StopOnSignal",
    "fit",
    "load_checkpoint",
    "save_checkpoint",
    "token_objective",
]
