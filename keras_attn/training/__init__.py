"""The training loop, checkpoints and run directories."""

from keras_attn.training.budget import Budget, Pace, warmed_up_then_linear
from keras_attn.training.checkpoint import load_checkpoint, save_checkpoint
from keras_attn.training.fit import fit
from keras_attn.training.interruption import StopOnSignal
from keras_attn.training.keeping import KeepCheckpoints
from keras_attn.training.objectives import (
    projected_token_objective,
    squared_error_objective,
    token_objective,
)
from keras_attn.training.progress import ProgressBar
from keras_attn.training.run_directory import RunDirectory

__all__ = [
    "Budget",
    "KeepCheckpoints",
    "Pace",
    "ProgressBar",
    "RunDirectory",
    "StopOnSignal",
    "fit",
    "load_checkpoint",
    "projected_token_objective",
    "save_checkpoint",
    "squared_error_objective",
    "token_objective",
    "warmed_up_then_linear",
]
