"""What can be set of the translation recipes: their files, their subwords and their models."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, make_dataclass
from typing import Any, ClassVar

from keras_attn.data.multi30k import LANGUAGES
from keras_attn.errors import UserError
from keras_attn.recipes.settings import flag, made, setting, settings_of

DEFAULT_VOCABULARY = 8_000


@dataclass(frozen=True, kw_only=True)
class TranslatorSettings:
    """What every translator has, with one default for all of them."""

    default_steps: ClassVar[int | None] = None
    default_minutes: ClassVar[float | None] = 25

    label_smoothing: float = setting(
        0.1, "Share of the probability spread over the vocabulary.", minimum=0, below=1
    )
    schedule: str = setting(
        "linear",
        "How the learning rate falls after its warm-up.",
        choices=("linear", "inverse_square_root"),
    )
    max_tokens: int = setting(
        128, "The longest sequence that is learned from and written.", minimum=2
    )
    clip_norm: float = setting(1.0, "The largest norm of the gradient.", above=0)
    validations: int = setting(10, "How often the run is validated.", minimum=1)
    seed: int = setting(
        1, "Of the order of the data, the weights and dropout.", minimum=0, below=2**32
    )


@dataclass(frozen=True, kw_only=True)
class RNNSearchSettings(TranslatorSettings):
    """RNNsearch, Bahdanau et al. 2014."""

    embedding_dim: int = setting(128, "Of the embedded subwords and the readout.", minimum=1)
    encoder_units: int = setting(128, "Of each direction of the encoder.", minimum=1)
    decoder_units: int = setting(256, "Of the decoder and its attention.", minimum=1)
    dropout: float = setting(0.2, "Share of values dropped in training.", minimum=0, below=1)
    learning_rate: float = setting(2e-3, "Of Adam at its peak.", above=0)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
    batch_tokens: int = setting(512, "Tokens of a side in a step.", minimum=1)
    averaged: int = setting(0, "Checkpoints averaged at the end; 0 for none.", minimum=0)


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(TranslatorSettings):
    """The Transformer, Vaswani et al. 2017.

    The sizes are those of Wu et al. 2021, the smallest Transformer for the 29,000 pairs of
    Multi30k; pre-norm and the higher rate make up for a short training.
    """

    dim: int = setting(128, "Of the model.", minimum=1)
    num_heads: int = setting(4, "Heads of every attention.", minimum=1)
    intermediate_dim: int = setting(256, "Of the feed-forward layers.", minimum=1)
    encoder_layers: int = setting(4, "Blocks of the encoder.", minimum=1)
    decoder_layers: int = setting(4, "Blocks of the decoder.", minimum=1)
    num_key_value_heads: int | None = setting(
        None, "Heads of keys and values.", minimum=1, shown="as many as heads"
    )
    positions: str = setting(
        "sinusoidal", "How positions are told apart.", choices=("sinusoidal", "rotary")
    )
    normalize_first: bool = setting(
        True, "Whether each part is normalised before it, not after it."
    )
    dropout: float = setting(0.3, "Share of values dropped in training.", minimum=0, below=1)
    learning_rate: float = setting(3e-3, "Of Adam at its peak.", above=0)
    warmup_steps: int = setting(500, "Steps until the peak.", minimum=1)
    batch_tokens: int = setting(2_400, "Tokens of a side in a step.", minimum=1)
    averaged: int = setting(10, "Checkpoints averaged at the end; 0 for none.", minimum=0)


_CELL = "The recurrent cell."
_VARIANTS = ("NIG", "NFG", "NOG", "NIAF", "NOAF", "CIFG", "FGR")


@dataclass(frozen=True, kw_only=True)
class RNNEncoderDecoderSettings(TranslatorSettings):
    """One vector between two recurrent networks, Cho et al. 2014 and Sutskever et al. 2014.

    Its 246 units make it as large as RNNsearch is.
    """

    embedding_dim: int = setting(128, "Of the embedded subwords and the readout.", minimum=1)
    units: int = setting(246, "Of every recurrent layer.", minimum=1)
    num_layers: int = setting(1, "Recurrent layers of each side.", minimum=1)
    context: str = setting(
        "every_step",
        "Where the decoder sees the vector of the source.",
        choices=("every_step", "initial_state"),
    )
    reverse_source: bool = setting(True, "Whether the source is read backwards.")
    cell: str = setting("gru", _CELL, choices=("gru", "lstm"))
    variant: str | None = setting(None, "Of the LSTM.", choices=_VARIANTS)
    peepholes: str | None = setting(None, "Of the LSTM.", choices=("diagonal", "full"))
    dropout: float = setting(0.2, "Share of values dropped in training.", minimum=0, below=1)
    learning_rate: float = setting(2e-3, "Of Adam at its peak.", above=0)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
    batch_tokens: int = setting(512, "Tokens of a side in a step.", minimum=1)
    averaged: int = setting(0, "Checkpoints averaged at the end; 0 for none.", minimum=0)


@dataclass(frozen=True, kw_only=True)
class GNMTSettings(TranslatorSettings):
    """Google's translator of deep LSTM layers, Wu et al. 2016."""

    units: int = setting(256, "Of every recurrent layer.", minimum=1)
    encoder_layers: int = setting(4, "Of the encoder, the first in both directions.", minimum=1)
    decoder_layers: int = setting(4, "Of the decoder.", minimum=1)
    residual: bool = setting(True, "Whether layers from the third on have residual connections.")
    cell: str = setting("lstm", _CELL, choices=("gru", "lstm"))
    variant: str | None = setting(None, "Of the LSTM.", choices=_VARIANTS)
    peepholes: str | None = setting(None, "Of the LSTM.", choices=("diagonal", "full"))
    dropout: float = setting(0.2, "Share of values dropped in training.", minimum=0, below=1)
    learning_rate: float = setting(2e-3, "Of Adam at its peak.", above=0)
    warmup_steps: int = setting(200, "Steps until the peak.", minimum=1)
    batch_tokens: int = setting(512, "Tokens of a side in a step.", minimum=1)
    averaged: int = setting(0, "Checkpoints averaged at the end; 0 for none.", minimum=0)


MODELS = {
    "rnnsearch": RNNSearchSettings,
    "transformer": TransformerSettings,
    "gnmt": GNMTSettings,
    "rnn-encoder-decoder": RNNEncoderDecoderSettings,
}


@dataclass(frozen=True, kw_only=True)
class Files:
    """Where the text is: two aligned files, or one with columns, to learn from and to validate."""

    source: str | None = setting(None, "Text to learn from, a sentence a line.", is_file=True)
    target: str | None = setting(None, "Its translation, line by line.", is_file=True)
    tsv: str | None = setting(None, "Both in one file, between tabs.", is_file=True)
    csv: str | None = setting(None, "Both in one file of comma-separated values.", is_file=True)
    jsonl: str | None = setting(None, "Both in one file, a JSON object a line.", is_file=True)
    columns: str | None = setting(
        None,
        "Source and target in a file with columns: numbers from 1, or names, which the first line "
        "of a TSV or CSV file then has.",
        shown="1,2 of TSV, source,target of CSV and JSONL",
    )
    validation_source: str | None = setting(None, "Text to choose the best model by.", is_file=True)
    validation_target: str | None = setting(None, "Its translation.", is_file=True)
    validation_tsv: str | None = setting(None, "Both, as --tsv.", is_file=True)
    validation_csv: str | None = setting(None, "Both, as --csv.", is_file=True)
    validation_jsonl: str | None = setting(None, "Both, as --jsonl.", is_file=True)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """How many subwords are learned."""

    vocabulary_size: int | None = setting(
        None,
        "Subwords to learn, of both languages together.",
        minimum=1,
        shown=f"{DEFAULT_VOCABULARY}, fewer if the text has fewer",
    )


@dataclass(frozen=True, kw_only=True)
class Languages:
    """Between which languages Multi30k is translated."""

    languages: str = setting(
        "en de",
        "Of the source and of the target.",
        choices=tuple(map(" ".join, itertools.permutations(LANGUAGES, 2))),
        words=2,
    )


@dataclass(frozen=True, kw_only=True)
class Multi30kRNNSearchSettings(RNNSearchSettings, Vocabulary, Languages):
    """RNNsearch learns to translate the captions of Multi30k."""


@dataclass(frozen=True, kw_only=True)
class Multi30kTransformerSettings(TransformerSettings, Vocabulary, Languages):
    """A Transformer learns to translate the captions of Multi30k."""


def of_model(model: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a model: what was given, else a default of the recipe, else the model's own.

    Raises:
        UserError: if the model does not have a setting that was given.
    """
    known = settings_of(MODELS[model])
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in known:
            raise UserError(f"The model {model} takes no {flag(name)}.")
    return asdict(made(MODELS[model], {**defaults, **given}, f"The model {model}"))


def _of_any_model(defaults: Mapping[str, Any]) -> list[tuple]:
    """The settings of all models as the fields of one dataclass.

    Each is None until it is given: what it is then is for the model to say.
    """
    found: dict[str, dict] = {}
    for model, kind in MODELS.items():
        for name, each in settings_of(kind).items():
            found.setdefault(name, {})[model] = each
    collected = []
    for name, owners in found.items():
        each = next(iter(owners.values()))
        limits = {part: getattr(each, part) for part in ("choices", "minimum", "above", "below")}
        shown = {model: owner.described_default for model, owner in owners.items()}
        if name in defaults or len(set(shown.values())) == 1:
            described = f"{defaults.get(name, next(iter(shown.values())))}"
        else:
            described = ", ".join(f"{default} of {model}" for model, default in shown.items())
        only = "" if len(owners) == len(MODELS) else f" ({', '.join(owners)} only)"
        help = each.help.removesuffix(".") + f"{only}."
        collected.append((name, each.kind | None, setting(None, help, shown=described, **limits)))
    return collected


def _with_any_model(
    name: str, doc: str, bases: tuple[type, ...], model: str, defaults: Mapping[str, Any]
) -> type:
    """A settings dataclass that has those of its bases, `model`, and those of all models."""
    chosen = setting(model, "The model that learns.", choices=tuple(MODELS))
    parts = [("model", str, chosen), *_of_any_model(defaults)]
    budget = {"default_steps": None, "default_minutes": TranslatorSettings.default_minutes}
    return make_dataclass(
        name,
        parts,
        bases=bases,
        namespace={"__doc__": doc, "__module__": __name__, **budget},
        frozen=True,
        kw_only=True,
    )


PIECES_DEFAULTS = {"max_tokens": 64}  # the longest sentence has 52

TranslationSettings = _with_any_model(
    "TranslationSettings",
    "A model learns to translate from your own files.",
    (Vocabulary, Files),
    "rnnsearch",
    {},
)
PiecesSettings = _with_any_model(
    "PiecesSettings",
    "A model learns Multi30k in the subwords of Wu et al. 2021, for scores beside theirs.",
    (),
    "transformer",
    PIECES_DEFAULTS,
)
