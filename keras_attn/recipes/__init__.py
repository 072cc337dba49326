"""Experiments by name: data, model, optimiser, metrics and signatures together.

A recipe's module, and with it TensorFlow, is imported when the recipe is made; its settings are
known without.
"""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

from keras_attn.errors import UserError
from keras_attn.recipes.settings import require_known, settings_of


@dataclass(frozen=True)
class _Entry:
    """Where a recipe lies.

    Attributes:
        summary: what it is, in a line.
        settings: the module and the name of its settings dataclass, which imports nothing slow.
        factory: the module and the name of what makes the recipe from settings.
    """

    summary: str
    settings: tuple[str, str]
    factory: tuple[str, str]


_CAPTION_SETTINGS = "keras_attn.recipes.caption_settings"
_NUMBER_SETTINGS = "keras_attn.recipes.number_settings"
_TRANSLATION_SETTINGS = "keras_attn.recipes.translation_settings"
_TRANSLATIONS = "keras_attn.recipes.translations"

_RECIPES = {
    "adding": _Entry(
        "Two marked numbers of a long stream are added.",
        ("keras_attn.recipes.adding_settings", "AddingSettings"),
        ("keras_attn.recipes.adding", "Adding"),
    ),
    "captions": _Entry(
        "Your own pictures are described.",
        (_CAPTION_SETTINGS, "CaptionsSettings"),
        ("keras_attn.recipes.captions", "Captions"),
    ),
    "digit-captions": _Entry(
        "Two digits on a canvas are named, and how they lie.",
        (_CAPTION_SETTINGS, "DigitCaptionsSettings"),
        ("keras_attn.recipes.digit_captions", "DigitCaptions"),
    ),
    "dates": _Entry(
        "Human dates in four languages become ISO 8601.",
        ("keras_attn.recipes.dates_settings", "DatesSettings"),
        ("keras_attn.recipes.dates", "Dates"),
    ),
    "reversal": _Entry(
        "Numbers are written backwards.",
        (_NUMBER_SETTINGS, "ReversalSettings"),
        ("keras_attn.recipes.reversal", "reversal"),
    ),
    "sorting": _Entry(
        "Numbers are written in their order.",
        (_NUMBER_SETTINGS, "SortingSettings"),
        ("keras_attn.recipes.sorting", "sorting"),
    ),
    "grammar": _Entry(
        "Sentences become bracketed trees.",
        ("keras_attn.recipes.grammar_settings", "GrammarSettings"),
        ("keras_attn.recipes.grammar", "Grammar"),
    ),
    "translation": _Entry(
        "Your own pairs of texts are translated.",
        (_TRANSLATION_SETTINGS, "TranslationSettings"),
        (_TRANSLATIONS, "translation"),
    ),
    "multi30k-rnnsearch": _Entry(
        "Captions from one language to another, by RNNsearch.",
        (_TRANSLATION_SETTINGS, "Multi30kRNNSearchSettings"),
        (_TRANSLATIONS, "multi30k_rnnsearch"),
    ),
    "multi30k-transformer": _Entry(
        "Captions from one language to another, by a Transformer.",
        (_TRANSLATION_SETTINGS, "Multi30kTransformerSettings"),
        (_TRANSLATIONS, "multi30k_transformer"),
    ),
    "multi30k-pieces": _Entry(
        "The same captions in published subwords.",
        (_TRANSLATION_SETTINGS, "PiecesSettings"),
        (_TRANSLATIONS, "multi30k_pieces"),
    ),
}

NAMES = tuple(_RECIPES)


def summary(name: str) -> str:
    """What a recipe is, in a line."""
    return _entry(name).summary


def settings_class(name: str) -> type:
    """The dataclass of a recipe's settings.

    Raises:
        UserError: if there is no recipe of that name.

    Example:
        >>> from keras_attn.recipes import settings_class
        >>> settings_class("adding")().units
        64
    """
    return _imported(_entry(name).settings)


def require_recipe(name: str, settings: Iterable[str] = ()) -> None:
    """Raise `UserError` unless there is a recipe of that name which takes these settings."""
    require_known(settings, settings_of(settings_class(name)), f"The recipe {name}")


def make_recipe(name: str, **settings):
    """The recipe of that name with these settings.

    Raises:
        UserError: if there is no recipe of that name, it does not take a setting, or a value does
            not fit.

    Example:
        >>> from keras_attn.recipes import make_recipe
        >>> make_recipe("dates", seed=3).settings["seed"]
        3
    """
    require_recipe(name, settings)
    return _imported(_entry(name).factory)(**settings)


def _entry(name: str) -> _Entry:
    if name not in _RECIPES:
        raise UserError(f"There is no recipe {name!r}; there are {', '.join(NAMES)}.")
    return _RECIPES[name]


def _imported(place: tuple[str, str]):
    module, name = place
    return getattr(importlib.import_module(module), name)
