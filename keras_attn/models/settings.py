"""The arguments that a model was made with, from which it is made again."""

import inspect
from collections.abc import Callable, Mapping

_OF_EVERY_MODEL = ("self", "name", "trainable", "dtype")


def settings_of(constructor: Callable, given: Mapping) -> dict:
    """The arguments of a model's constructor by name, in their order.

    Left out are those that every Keras model has, which `config_of` reads from the model.

    Args:
        constructor: `Model.__init__` of the model's own class.
        given: the values by name; in the first line of the constructor that is `locals()`.

    Example:
        >>> def constructor(self, dim, dropout=0.1, name=None, *, dtype=None):
        ...     return settings_of(constructor, locals())
        >>> constructor(None, 4, name="small")
        {'dim': 4, 'dropout': 0.1}
    """
    names = inspect.signature(constructor).parameters
    return {name: given[name] for name in names if name not in _OF_EVERY_MODEL}


def config_of(model) -> dict:
    """What `get_config` returns of a model that has `settings` and a `precision`."""
    return {
        **model.settings,
        "name": model.name,
        "trainable": model.trainable,
        "dtype": model.precision.config(model),
    }
