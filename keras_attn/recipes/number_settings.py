"""What can be set of the recipes that write numbers in another order."""

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.recipes.settings import setting


@dataclass(frozen=True, kw_only=True)
class NumberSettings:
    """What both recipes have, with one default for them."""

    default_steps: ClassVar[int | None] = None
    default_minutes: ClassVar[float | None] = 5

    embedding_dim: int = setting(32, "Of the embedded numbers and the readout.", minimum=1)
    decoder_units: int = setting(128, "Of the decoder.", minimum=1)
    dropout: float = setting(0.3, "Share of values dropped in training.", minimum=0, below=1)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    validations: int = setting(5, "How often the run is validated.", minimum=1)
    seed: int = setting(1, "Of the data, the weights and dropout.", minimum=0, below=2**32)


@dataclass(frozen=True, kw_only=True)
class ReversalSettings(NumberSettings):
    """RNNsearch learns to write sequences of numbers backwards, and where to look meanwhile."""

    encoder_units: int = setting(128, "Of each direction of the encoder.", minimum=1)
    attention_units: int = setting(128, "Of the attention.", minimum=1)
    steepness: float = setting(
        1.0, "How many times as large as usual the attention's first weights are.", above=0
    )
    batch_size: int = setting(128, "Sequences in a step.", minimum=1)
    learning_rate: float = setting(4e-3, "Of Adam at its peak; it falls as half a cosine.", above=0)


@dataclass(frozen=True, kw_only=True)
class SortingSettings(NumberSettings):
    """RNNsearch learns to write sequences of numbers in order, and where to look meanwhile."""

    encoder_units: int = setting(64, "Of each direction of the encoder.", minimum=1)
    attention_units: int = setting(256, "Of the attention.", minimum=1)
    steepness: float = setting(
        10.0, "How many times as large as usual the attention's first weights are.", above=0
    )
    batch_size: int = setting(64, "Sequences in a step.", minimum=1)
    learning_rate: float = setting(
        1.5e-3, "Of Adam at its peak; it falls as half a cosine.", above=0
    )
