"""The training loop, strategies, checkpoints and run directories."""

from keras_attn.training.averaging import KeepSnapshots, load_average, snapshots
from keras_attn.training.budget import (
    Budget,
    Pace,
    Stopwatch,
    warmed_up_then_inverse_square_root,
    warmed_up_then_linear,
)
from keras_attn.training.caption_objective import caption_objective
from keras_attn.training.checkpoint import load_checkpoint, save_checkpoint
from keras_attn.training.epochs import Epochs
from keras_attn.training.fit import fit
from keras_attn.training.history import KeepHistory, read_history
from keras_attn.training.interruption import StopOnSignal
from keras_attn.training.keeping import KeepCheckpoints
from keras_attn.training.objectives import (
    projected_token_objective,
    squared_error_objective,
    token_objective,
)
from keras_attn.training.progress import ProgressBar
from keras_attn.training.resuming import resume
from keras_attn.training.run_directory import RunDirectory
from keras_attn.training.strategy import make_strategy
from keras_attn.training.tensorboard import TensorBoardCurves
from keras_attn.training.validation_schedule import NO_LIMITS, ValidationLimits, ValidationSchedule
from keras_attn.training.weight_average import WeightAverage
from keras_attn.training.workers import Workers

__all__ = [
    "NO_LIMITS",
    "Budget",
    "Epochs",
    "KeepCheckpoints",
    "KeepHistory",
    "KeepSnapshots",
    "Pace",
    "ProgressBar",
    "RunDirectory",
    "StopOnSignal",
    "Stopwatch",
    "TensorBoardCurves",
    "ValidationLimits",
    "ValidationSchedule",
    "WeightAverage",
    "Workers",
    "caption_objective",
    "fit",
    "load_average",
    "load_checkpoint",
    "make_strategy",
    "projected_token_objective",
    "read_history",
    "resume",
    "save_checkpoint",
    "snapshots",
    "squared_error_objective",
    "token_objective",
    "warmed_up_then_inverse_square_root",
    "warmed_up_then_linear",
]
