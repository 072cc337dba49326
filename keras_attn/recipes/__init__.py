"""Experiments by name: data, model, optimiser, metrics and signatures together."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

from keras_attn.errors import UserError
from keras_attn.recipes import settings as _settings
from keras_attn.recipes.settings import Option, flag_of, options_of

_TRANSLATIONS = "keras_attn.recipes.translations"


@dataclass(frozen=True)
class Entry:
    """What is known of a recipe before it is imported, which takes seconds.

    Attributes:
        summary: a line for a list of recipes.
        module, factory: where it is made.
        options: what may be set.
        steps, minutes: how long it trains by default, one of them.
    """

    summary: str
    module: str
    factory: str
    options: dict[str, Option]
    steps: int | None = None
    minutes: float | None = None


def _translation(*models: str, also: tuple[type, ...] = (), **changed) -> dict:
    """The options of translators that are one of these models, some with another default."""
    found = options_of(*also)
    if len(models) > 1:
        found["model"] = Option("model", str, "What translates.", models, {"": models[0]})
    found |= options_of(models={name: _settings.MODELS[name] for name in models})
    for name, default in changed.items():
        found[name].defaults.update(dict.fromkeys(found[name].defaults, default))
    return found


_ALL = tuple(_settings.MODELS)
_RECIPES = {
    "adding": Entry(
        "the sum of two marked numbers in a long stream",
        "keras_attn.recipes.adding",
        "Adding",
        options_of(_settings.AddingSettings),
        steps=6_000,
    ),
    "dates": Entry(
        "human dates in four languages to ISO 8601",
        "keras_attn.recipes.dates",
        "Dates",
        options_of(_settings.DatesSettings),
        steps=3_000,
    ),
    "translation": Entry(
        "your own aligned text files to a translator",
        _TRANSLATIONS,
        "translation",
        _translation(*_ALL, also=(_settings.FileSettings, _settings.SubwordSettings)),
        minutes=25,
    ),
    "multi30k-rnnsearch": Entry(
        "English to German on Multi30k's raw text, RNNsearch",
        _TRANSLATIONS,
        "multi30k_rnnsearch",
        _translation("rnnsearch", also=(_settings.SubwordSettings,)),
        minutes=25,
    ),
    "multi30k-transformer": Entry(
        "English to German on Multi30k's raw text, Transformer",
        _TRANSLATIONS,
        "multi30k_transformer",
        _translation("transformer", also=(_settings.SubwordSettings,)),
        minutes=25,
    ),
    "multi30k-pieces": Entry(
        "English to German on Multi30k in published subwords",
        _TRANSLATIONS,
        "multi30k_pieces",
        # The longest sentence has 52 pieces.
        _translation("transformer", *(n for n in _ALL if n != "transformer"), max_tokens=64),
        minutes=25,
    ),
}

NAMES = tuple(_RECIPES)


def entry(name: str) -> Entry:
    """What is known of a recipe before it is imported.

    Raises:
        UserError: if there is no recipe of that name.
    """
    if name not in _RECIPES:
        raise UserError(f"There is no recipe {name!r}; there are {', '.join(NAMES)}.")
    return _RECIPES[name]


def require_recipe(name: str, settings: Iterable[str] = ()) -> None:
    """Raise `UserError` unless there is a recipe of that name which takes these settings."""
    taken = entry(name).options
    for setting in settings:
        if setting not in taken:
            raise UserError(
                f"The recipe {name} takes no {flag_of(setting)}; it takes "
                f"{', '.join(map(flag_of, taken))}."
            )


def make_recipe(name: str, **settings):
    """The recipe of that name with these settings.

    Raises:
        UserError: if there is no recipe of that name, or it does not take a setting or its value.

    Example:
        >>> make_recipe("dates", seed=3).settings["seed"]
        3
    """
    require_recipe(name, settings)
    known = _RECIPES[name]
    return getattr(importlib.import_module(known.module), known.factory)(**settings)
