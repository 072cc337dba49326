"""Experiments by name: data, model, optimiser, metrics and signatures together."""

import importlib
import inspect

from keras_attn.errors import UserError

_RECIPES = {
    "dates": ("keras_attn.recipes.dates", "Dates"),
    "translation": ("keras_attn.recipes.translations", "translation"),
    "multi30k-rnnsearch": ("keras_attn.recipes.translations", "multi30k_rnnsearch"),
}

NAMES = tuple(_RECIPES)


def require_name(name: str) -> None:
    """Raise `UserError` if there is no recipe of that name."""
    if name not in _RECIPES:
        raise UserError(f"There is no recipe {name!r}; there are {', '.join(NAMES)}.")


def make_recipe(name: str, **settings):
    """The recipe of that name with these settings.

    Raises:
        UserError: if there is no recipe of that name, or it does not take a setting.

    Example:
        >>> make_recipe("dates", seed=3).settings["seed"]
        3
    """
    require_name(name)
    module, attribute = _RECIPES[name]
    factory = getattr(importlib.import_module(module), attribute)
    taken = inspect.signature(factory).parameters
    for setting in settings:
        if setting not in taken:
            raise UserError(
                f"The recipe {name} takes no --{setting.replace('_', '-')}; it takes "
                f"{', '.join('--' + parameter.replace('_', '-') for parameter in taken)}."
            )
    return factory(**settings)
