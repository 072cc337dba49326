"""Experiments by name: data, model, optimiser, metrics and signatures together."""

import importlib
from collections.abc import Iterable

from keras_attn.errors import UserError

_TRAINING = (
    "dropout",
    "label_smoothing",
    "learning_rate",
    "warmup_steps",
    "schedule",
    "batch_tokens",
    "max_tokens",
    "seed",
)
_RNN_SEARCH = ("embedding_dim", "encoder_units", "decoder_units")
_TRANSFORMER = (
    "dim",
    "num_heads",
    "intermediate_dim",
    "encoder_layers",
    "decoder_layers",
    "num_key_value_heads",
    "positions",
    "normalize_first",
)
_FILES = ("source", "target", "validation_source", "validation_target")
_TRANSLATIONS = "keras_attn.recipes.translations"

# The module, the factory and the settings it takes, looked at before the slow import.
_RECIPES = {
    "adding": ("keras_attn.recipes.adding", "Adding", ("cell", "length", "units", "seed")),
    "dates": ("keras_attn.recipes.dates", "Dates", ("seed", "training_dates", "units")),
    "reversal": ("keras_attn.recipes.reversal", "reversal", ("seed",)),
    "sorting": ("keras_attn.recipes.sorting", "sorting", ("seed",)),
    "translation": (
        _TRANSLATIONS,
        "translation",
        (*_FILES, "model", "vocabulary_size", *_TRAINING, *_RNN_SEARCH, *_TRANSFORMER),
    ),
    "multi30k-rnnsearch": (
        _TRANSLATIONS,
        "multi30k_rnnsearch",
        ("languages", "vocabulary_size", *_TRAINING, *_RNN_SEARCH),
    ),
    "multi30k-transformer": (
        _TRANSLATIONS,
        "multi30k_transformer",
        ("languages", "vocabulary_size", *_TRAINING, *_TRANSFORMER),
    ),
    "multi30k-pieces": (
        _TRANSLATIONS,
        "multi30k_pieces",
        ("model", *_TRAINING, *_RNN_SEARCH, *_TRANSFORMER),
    ),
}

NAMES = tuple(_RECIPES)


def require_recipe(name: str, settings: Iterable[str] = ()) -> None:
    """Raise `UserError` unless there is a recipe of that name which takes these settings."""
    if name not in _RECIPES:
        raise UserError(f"There is no recipe {name!r}; there are {', '.join(NAMES)}.")
    taken = _RECIPES[name][2]
    for setting in settings:
        if setting not in taken:
            raise UserError(
                f"The recipe {name} takes no {_flag(setting)}; it takes "
                f"{', '.join(map(_flag, taken))}."
            )


def make_recipe(name: str, **settings):
    """The recipe of that name with these settings.

    Raises:
        UserError: if there is no recipe of that name, or it does not take a setting.

    Example:
        >>> make_recipe("dates", seed=3).settings["seed"]
        3
    """
    require_recipe(name, settings)
    module, factory, _ = _RECIPES[name]
    return getattr(importlib.import_module(module), factory)(**settings)


def _flag(setting: str) -> str:
    return "--" + setting.replace("_", "-")
