"""What can be set of the recipe adding."""

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.recipes.settings import setting


@dataclass(frozen=True, kw_only=True)
class AddingSettings:
    """One recurrent layer and a linear output add the two marked numbers of a long stream."""

    default_steps: ClassVar[int | None] = 6_000
    default_minutes: ClassVar[float | None] = None

    cell: str = setting(
        "lstm",
        "The recurrent layer; the forgetful LSTM starts with a forget bias of 0.",
        choices=("lstm", "lstm-forgetful", "peephole", "gru", "rnn"),
    )
    length: int = setting(100, "Numbers in a stream.", minimum=2)
    units: int = setting(64, "Of the recurrent layer.", minimum=1)
    batch_size: int = setting(50, "Streams in a step.", minimum=1)
    learning_rate: float = setting(1e-3, "Of Adam, the same at every step.", above=0)
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    validations: int = setting(12, "How often the run is validated.", minimum=1)
    seed: int = setting(1, "Of the data and the weights.", minimum=0, below=2**32)
