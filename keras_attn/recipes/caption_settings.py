"""What can be set of the recipes that write captions."""

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.recipes.settings import setting


@dataclass(frozen=True, kw_only=True)
class CaptionerSettings:
    """What both recipes have, with one default for them."""

    default_steps: ClassVar[int | None] = None
    default_minutes: ClassVar[float | None] = 25

    attention: str = setting(
        "soft",
        "Whether a word reads a mixture of all places, or one that is drawn.",
        choices=("soft", "hard"),
    )
    mixture_share: float = setting(
        0.5, "Share of the captions that hard attention reads as a mixture.", minimum=0, below=1
    )
    policy_weight: float = setting(1.0, "Of what hard attention learns from its draws.", minimum=0)
    entropy_weight: float = setting(
        0.01, "Of the entropy of hard attention, which keeps it looking around.", minimum=0
    )
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    validations: int = setting(10, "How often the run is validated.", minimum=1)
    seed: int = setting(
        1, "Of the order of the data, the weights and what is drawn.", minimum=0, below=2**32
    )


@dataclass(frozen=True, kw_only=True)
class DigitCaptionsSettings(CaptionerSettings):
    """Show, Attend and Tell names two handwritten digits and says how they lie."""

    size: int = setting(56, "Pixels along a side of a canvas.", minimum=56)
    filters: int = setting(
        16, "Of the first convolution; the second has twice and the third four times as many.",
        minimum=1,
    )  # fmt: skip
    embedding_dim: int = setting(64, "Of the embedded words and the readout.", minimum=1)
    decoder_units: int = setting(128, "Of the LSTM.", minimum=1)
    attention_units: int = setting(64, "Of the attention.", minimum=1)
    first_state: str = setting(
        "learned",
        "What the LSTM knows before it looks: the mean of the image, or nothing of it.",
        choices=("learned", "mean"),
    )
    coverage_weight: float = setting(
        0.0, "Of soft attention's penalty for places that no word looked at.", minimum=0
    )
    dropout: float = setting(0.0, "Share of values dropped in training.", minimum=0, below=1)
    batch_size: int = setting(64, "Canvases in a step.", minimum=1)
    learning_rate: float = setting(1e-3, "Of Adam at its peak; it falls as half a cosine.", above=0)
    warmup_steps: int = setting(100, "Steps until the peak.", minimum=1)


@dataclass(frozen=True, kw_only=True)
class CaptionsSettings(CaptionerSettings):
    """Show, Attend and Tell learns to describe your own pictures."""

    images: str | None = setting(None, "The directory of the pictures.", is_file=True)
    captions: str | None = setting(
        None,
        "What they show: Karpathy's JSON, which also says which pictures are for validation, or a "
        "TSV of file and caption, of whose pictures every twentieth is.",
        is_file=True,
    )
    encoder: str | None = setting(
        None,
        "A .keras file of a network from pictures in [0, 1] to a grid of features, such as one of "
        "keras.applications without its top; it is not trained.",
        is_file=True,
        shown="a small one that learns with the rest",
    )
    image_size: int = setting(
        112, "Pixels along a side, to which pictures are resized.", minimum=32
    )
    filters: int = setting(
        32, "Of the first convolution of the small network; each of the next three has twice as "
        "many.",
        minimum=1,
    )  # fmt: skip
    least_count: int = setting(5, "How often a word must occur to be learned.", minimum=1)
    max_length: int = setting(20, "The most words of a caption, the end included.", minimum=2)
    embedding_dim: int = setting(256, "Of the embedded words and the readout.", minimum=1)
    decoder_units: int = setting(512, "Of the LSTM.", minimum=1)
    attention_units: int = setting(256, "Of the attention.", minimum=1)
    coverage_weight: float = setting(
        1.0, "Of soft attention's penalty for places that no word looked at.", minimum=0
    )
    dropout: float = setting(0.5, "Share of values dropped in training.", minimum=0, below=1)
    batch_size: int = setting(64, "Captions in a step.", minimum=1)
    learning_rate: float = setting(1e-3, "Of Adam at its peak; it falls as half a cosine.", above=0)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
