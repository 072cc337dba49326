"""What can be set of the recipe dates."""

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.recipes.settings import setting


@dataclass(frozen=True, kw_only=True)
class DatesSettings:
    """A character RNNsearch reads human dates in four languages and writes them in ISO 8601."""

    default_steps: ClassVar[int | None] = 3_000
    default_minutes: ClassVar[float | None] = None

    training_dates: int = setting(200_000, "Dates that are written for training.", minimum=1)
    units: int = setting(
        32, "Of each direction of the encoder; decoder and attention have twice as many.", minimum=1
    )
    embedding_dim: int = setting(32, "Of the embedded characters.", minimum=1)
    dropout: float = setting(0.0, "Share of values dropped in training.", minimum=0, below=1)
    label_smoothing: float = setting(
        0.0, "Share of the probability spread over all characters.", minimum=0, below=1
    )
    batch_size: int = setting(64, "Dates in a step.", minimum=1)
    learning_rate: float = setting(6e-3, "Of Adam at its peak; it falls as half a cosine.", above=0)
    warmup_steps: int = setting(100, "Steps until the peak.", minimum=1)
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    validations: int = setting(2, "How often the run is validated.", minimum=1)
    seed: int = setting(
        1, "Of the data, their order, the weights and dropout.", minimum=0, below=2**32
    )
