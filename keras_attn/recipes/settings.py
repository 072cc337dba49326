"""What a person may set of each recipe: name, type, default and meaning, said once.

The command line makes its options from these fields, a run directory keeps their values, and a
recipe is made with them. Nothing slow is imported here, so that `--help` is quick.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields

from keras_attn.errors import UserError

FILES = ("source", "target", "validation_source", "validation_target")


def setting(default, meaning: str, *, choices: tuple = (), least: float | None = None):
    """A field with its default and what it means; `choices` or `least` say what else it may be."""
    return field(default=default, metadata={"help": meaning, "choices": choices, "least": least})


_SEED = "Of data, weights and dropout."


@dataclass(frozen=True)
class AddingSettings:
    cell: str = setting(
        "lstm",
        "The recurrent layer; the forgetful LSTM starts with a forget bias of 0.",
        choices=("lstm", "lstm-forgetful", "peephole", "gru", "rnn"),
    )
    length: int = setting(100, "Numbers in a stream.", least=2)
    units: int = setting(64, "Of the recurrent layer.", least=1)
    batch_size: int = setting(50, "Streams in a batch.", least=1)
    learning_rate: float = setting(1e-3, "Of Adam, the same in all steps.", least=0)
    seed: int = setting(1, _SEED)


@dataclass(frozen=True)
class DatesSettings:
    training_dates: int = setting(200_000, "How many dates are written for training.", least=1)
    embedding_dim: int = setting(32, "Width of the embeddings.", least=1)
    units: int = setting(
        32, "Of each direction; decoder and attention have twice as many.", least=1
    )
    batch_size: int = setting(64, "Dates in a batch.", least=1)
    learning_rate: float = setting(6e-3, "At its height; it falls as a cosine.", least=0)
    seed: int = setting(1, _SEED)


@dataclass(frozen=True)
class FileSettings:
    source: str | None = setting(None, "Text to learn from, a sentence a line.")
    target: str | None = setting(None, "Its translation, line by line.")
    validation_source: str | None = setting(None, "Text to choose the best model by.")
    validation_target: str | None = setting(None, "Its translation.")


@dataclass(frozen=True)
class SubwordSettings:
    vocabulary_size: int | None = setting(
        None, "Subwords to learn; by default 8000, or as many as the text allows.", least=1
    )


_DROPOUT = "Share of the features dropped in training."
_SMOOTHING = "Share of the labels spread over the vocabulary."
_SCHEDULE = "How the learning rate falls after its height."
_SCHEDULES = ("linear", "inverse_square_root")
_VARIANTS = ("NIG", "NFG", "NOG", "NIAF", "NOAF", "CIFG", "FGR")


@dataclass(frozen=True)
class RNNSearchSettings:
    embedding_dim: int = setting(128, "Width of the embeddings and of the readout.", least=1)
    encoder_units: int = setting(128, "Of each direction of the encoder.", least=1)
    decoder_units: int = setting(256, "Of the decoder and its attention.", least=1)
    dropout: float = setting(0.2, _DROPOUT, least=0)
    label_smoothing: float = setting(0.1, _SMOOTHING, least=0)
    learning_rate: float = setting(2e-3, "At its height.", least=0)
    warmup_steps: int = setting(200, "Steps until it is reached.", least=0)
    schedule: str = setting("linear", _SCHEDULE, choices=_SCHEDULES)
    batch_tokens: int = setting(512, "Target tokens in a batch.", least=1)
    max_tokens: int = setting(128, "Longer pairs are left out, longer texts cut.", least=2)
    seed: int = setting(1, _SEED)


# Its 246 units make it as large as RNNsearch is.
@dataclass(frozen=True)
class RNNEncoderDecoderSettings:
    embedding_dim: int = setting(128, "Width of the embeddings and of the readout.", least=1)
    units: int = setting(246, "Of every recurrent layer.", least=1)
    num_layers: int = setting(1, "Recurrent layers of encoder and decoder.", least=1)
    context: str = setting(
        "every_step",
        "Where the decoder sees the vector of the source.",
        choices=("every_step", "initial_state"),
    )
    reverse_source: bool = setting(True, "Whether the source is read backwards.")
    cell: str = setting("gru", "The recurrent cell.", choices=("gru", "lstm"))
    variant: str | None = setting(None, "Of the LSTM.", choices=_VARIANTS)
    peepholes: str | None = setting(None, "Of the LSTM.", choices=("diagonal", "full"))
    dropout: float = setting(0.2, _DROPOUT, least=0)
    label_smoothing: float = setting(0.1, _SMOOTHING, least=0)
    learning_rate: float = setting(2e-3, "At its height.", least=0)
    warmup_steps: int = setting(200, "Steps until it is reached.", least=0)
    schedule: str = setting("linear", _SCHEDULE, choices=_SCHEDULES)
    batch_tokens: int = setting(512, "Target tokens in a batch.", least=1)
    max_tokens: int = setting(128, "Longer pairs are left out, longer texts cut.", least=2)
    seed: int = setting(1, _SEED)


@dataclass(frozen=True)
class GNMTSettings:
    units: int = setting(256, "Of every layer, and width of the embeddings.", least=1)
    encoder_layers: int = setting(4, "Of the encoder, the first in both directions.", least=1)
    decoder_layers: int = setting(4, "Of the decoder.", least=1)
    residual: bool = setting(True, "Whether layers from the third on have residual connections.")
    cell: str = setting("lstm", "The recurrent cell.", choices=("lstm", "gru"))
    variant: str | None = setting(None, "Of the LSTM.", choices=_VARIANTS)
    peepholes: str | None = setting(None, "Of the LSTM.", choices=("diagonal", "full"))
    dropout: float = setting(0.2, _DROPOUT, least=0)
    label_smoothing: float = setting(0.1, _SMOOTHING, least=0)
    learning_rate: float = setting(2e-3, "At its height.", least=0)
    warmup_steps: int = setting(200, "Steps until it is reached.", least=0)
    schedule: str = setting("linear", _SCHEDULE, choices=_SCHEDULES)
    batch_tokens: int = setting(512, "Target tokens in a batch.", least=1)
    max_tokens: int = setting(128, "Longer pairs are left out, longer texts cut.", least=2)
    seed: int = setting(1, _SEED)


# The sizes are those of Wu et al. 2021, the smallest Transformer for the 29,000 pairs of Multi30k;
# pre-norm and the higher rate make up for a short training.
@dataclass(frozen=True)
class TransformerSettings:
    dim: int = setting(128, "Width of the model.", least=1)
    num_heads: int = setting(4, "Heads of every attention.", least=1)
    intermediate_dim: int = setting(256, "Width of the feed-forward networks.", least=1)
    encoder_layers: int = setting(4, "Blocks of the encoder.", least=1)
    decoder_layers: int = setting(4, "Blocks of the decoder.", least=1)
    num_key_value_heads: int | None = setting(None, "Fewer for grouped heads.", least=1)
    positions: str = setting("sinusoidal", "How it knows places.", choices=("sinusoidal", "rotary"))
    normalize_first: bool = setting(True, "Whether blocks normalise their inputs (pre-norm).")
    dropout: float = setting(0.3, _DROPOUT, least=0)
    label_smoothing: float = setting(0.1, _SMOOTHING, least=0)
    learning_rate: float = setting(3e-3, "At its height.", least=0)
    warmup_steps: int = setting(500, "Steps until it is reached.", least=0)
    schedule: str = setting("linear", _SCHEDULE, choices=_SCHEDULES)
    batch_tokens: int = setting(2_400, "Target tokens in a batch.", least=1)
    max_tokens: int = setting(128, "Longer pairs are left out, longer texts cut.", least=2)
    seed: int = setting(1, _SEED)


MODELS = {
    "rnnsearch": RNNSearchSettings,
    "transformer": TransformerSettings,
    "gnmt": GNMTSettings,
    "rnn-encoder-decoder": RNNEncoderDecoderSettings,
}
"""The models of translation and what may be set of each."""


@dataclass(frozen=True)
class Option:
    """A setting as a person gives it.

    Attributes:
        name: of the field.
        type: int, float, str or bool.
        help: what it means.
        choices: all values that it may have; () for no such list.
        defaults: by the model, or under "" where there is one for all.
    """

    name: str
    type: type
    help: str
    choices: tuple
    defaults: dict[str, object]


def options_of(*kinds: type, models: Mapping[str, type] | None = None) -> dict[str, Option]:
    """The options of settings, and of all models of which one will be chosen."""
    found: dict[str, Option] = {}
    for model, kind in [("", kind) for kind in kinds] + list((models or {}).items()):
        for each in fields(kind):
            option = found.setdefault(
                each.name,
                Option(each.name, _type(each), each.metadata["help"], each.metadata["choices"], {}),
            )
            option.defaults[model] = each.default
    return found


def resolved(kind: type, given: Mapping, what: str) -> dict:
    """All values of settings, those that were given and the defaults of the others.

    Raises:
        UserError: if there is no setting of a name, or it cannot have the value.
    """
    known = {each.name: each for each in fields(kind)}
    for name, value in given.items():
        if name not in known:
            takes = ", ".join(map(flag_of, known)) or "none"
            raise UserError(f"{what} takes no {flag_of(name)}; it takes {takes}.")
        _require_value(known[name], value)
    return {
        name: given.get(name, each.default)
        for name, each in known.items()
        if each.default is not MISSING
    }


def flag_of(name: str) -> str:
    """The option of a setting on the command line."""
    return "--" + name.replace("_", "-")


def _type(each: Field) -> type:
    hint = each.type
    if isinstance(hint, types.UnionType):  # with None
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def _require_value(each: Field, value) -> None:
    """Raise `UserError` unless a value is one that the field may have."""
    wanted, rules = _type(each), each.metadata
    if value is None and each.default is None:
        return
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    fits = isinstance(value, float | int if wanted is float else wanted)
    if not fits or (isinstance(value, bool) and wanted is not bool):
        raise UserError(f"{flag_of(each.name)} is {names[wanted]}. Received: {value!r}.")
    if rules["choices"] and value not in rules["choices"]:
        listed = ", ".join(rules["choices"])
        raise UserError(f"{flag_of(each.name)} is one of {listed}. Received: {value!r}.")
    if rules["least"] is not None and not value >= rules["least"]:
        raise UserError(f"{flag_of(each.name)} is {rules['least']} or more. Received: {value!r}.")
