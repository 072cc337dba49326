"""What can be set of the recipe that writes trees."""

from dataclasses import dataclass
from typing import ClassVar

from keras_attn.recipes.settings import setting


@dataclass(frozen=True, kw_only=True)
class GrammarSettings:
    """LSTMs with attention learn to write the tree of a sentence, Vinyals et al. 2015."""

    default_steps: ClassVar[int | None] = None
    default_minutes: ClassVar[float | None] = 25

    trees: str | None = setting(
        None,
        "Bracketed trees to learn from, one a line.",
        shown="the treebanks treebank_nltk and gum_const",
        is_file=True,
    )
    validation_trees: str | None = setting(
        None,
        "Trees to choose the best model by.",
        shown="those of treebank_nltk",
        is_file=True,
    )
    test_trees: str | None = setting(
        None,
        "Trees to evaluate with.",
        shown="those of treebank_nltk, or those that validate",
        is_file=True,
    )
    model: str = setting(
        "attention",
        "With attention, or with one vector between the two sides.",
        choices=("attention", "vector"),
    )
    reverse_source: bool = setting(True, "Whether the sentence is read backwards.")
    embedding_dim: int = setting(128, "Of words and labels.", minimum=1)
    units: int = setting(192, "Of every LSTM layer and the attention.", minimum=1)
    encoder_layers: int = setting(
        1, "Of the encoder; with attention the first reads in both directions.", minimum=1
    )
    decoder_layers: int = setting(
        1, "Above the attention; with one vector as many as in the encoder.", minimum=1
    )
    dropout: float = setting(0.3, "Share of values dropped in training.", minimum=0, below=1)
    label_smoothing: float = setting(
        0.0, "Share of the probability spread over the vocabulary.", minimum=0, below=1
    )
    learning_rate: float = setting(3e-3, "Of Adam at its peak; it falls to 0.", above=0)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    batch_tokens: int = setting(1_024, "Tokens of the trees in a step.", minimum=1)
    averaged: int = setting(0, "Checkpoints averaged at the end; 0 for none.", minimum=0)
    min_count: int = setting(
        3, "How often a word must occur to be known; rarer ones are known by a class.", minimum=1
    )
    min_class_count: int = setting(
        20, "How often the rare words of a class must occur, together.", minimum=1
    )
    max_words: int = setting(
        100, "The longest sentence that is learned from and parsed.", minimum=1
    )
    max_tokens: int = setting(
        256, "The longest tree, in labels and leaves; three more than words at least.", minimum=4
    )
    validations: int = setting(10, "How often the run is validated.", minimum=1)
    seed: int = setting(
        1, "Of the order of the data, the weights and dropout.", minimum=0, below=2**32
    )
