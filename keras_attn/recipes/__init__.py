"""Experiments by name: data, model, optimiser, metrics and signatures together."""

import importlib

from keras_attn.errors import UserError

_RECIPES = {"dates": ("keras_attn.recipes.dates", "Dates")}

NAMES = tuple(_RECIPES)


def require_name(name: str) -> None:
    """Raise `UserError` if there is no recipe of that name."""
    if name not in _RECIPES:
        raise UserError(f"There is no recipe {name!r}; there is {', '.join(NAMES)}.")


def make_recipe(name: str, **settings):
    """The recipe of that name with these settings.

    Raises:
        UserError: if there is no recipe of that name.

    Example:
        >>> make_recipe("dates", seed=3).settings["seed"]
        3
    """
    require_name(name)
    module, attribute = _RECIPES[name]
    return getattr(importlib.import_module(module), attribute)(**settings)
