"""A small `dates` model, trained once for all tests that need a real one."""

import numpy as np

from keras_attn.recipes.dates import Dates
from keras_attn.recipes.run import load, train
from keras_attn.training import Budget, RunDirectory

STEPS = 300

ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "3\x00/4/07",
    "😀",
    "👩‍👩‍👧 3. März 1998",
    b"\xff\xfe\x80",
    "x" * 10_000,
    "9" * 10_000,
    "二〇〇七年三月四日",
    "\u202e3/4/07",
    "1\n2\r3",
]


def train_small_dates(directory):
    """The run directory of a model that has begun to read dates."""
    run = RunDirectory(directory)
    train(Dates(training_dates=20_000), run, Budget(steps=STEPS))
    return run


def load_text_model(run):
    return load(run)[1]


def as_bytes(texts) -> np.ndarray:
    return np.array([t.encode() if isinstance(t, str) else t for t in texts], object)
