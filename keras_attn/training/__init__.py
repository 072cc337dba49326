"""The training loop, checkpoints and run directories."""

from keras_attn.training.averaging import KeepSnapshots, load_average, snapshots
from keras_attn.training.budget import (
    Budget,
    Pace,
    warmed_up_then_inverse_square_root,
    warmed_up_then_linear,
)
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
from keras_attn.training.tensorboard import TensorBoardCurves

__all__ = [
    "Budget",
    "KeepCheckpoints",
    "KeepSnapshots",
    "Pace",
    "ProgressBar",
    "RunDirectory",
    "StopOnSignal",
    "TensorBoardCurves",
    "fit",
    "load_average",
    "load_checkpoint",
    "projected_token_objective",
    "save_checkpoint",
    "snapshots",
    "squared_error_objective",
    "token_objective",
    "warmed_up_then_inverse_square_root",
    "warmed_up_then_linear",
]
