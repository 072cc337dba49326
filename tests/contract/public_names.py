"""Everything that the package calls public: the names in the `__all__` of its modules."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import keras_attn


def public_modules() -> list:
    """Every module of the package that has an `__all__`."""
    names = ["keras_attn", *(m.name for m in pkgutil.walk_packages(
        keras_attn.__path__, "keras_attn."))]  # fmt: skip
    modules = (importlib.import_module(name) for name in names)
    return [module for module in modules if hasattr(module, "__all__")]


def public_objects() -> dict[str, object]:
    """Classes and functions by the shortest name under which they are public."""
    found = {}
    for module in public_modules():
        for name in module.__all__:
            each = getattr(module, name)
            if inspect.isclass(each) or inspect.isfunction(each):
                path = f"{module.__name__}.{name}"
                known = next((k for k, v in found.items() if v is each), None)
                if known is None or len(path) < len(known):
                    found.pop(known, None)
                    found[path] = each
    return dict(sorted(found.items()))


def documented_parts(name: str, each) -> Iterator[tuple[str, object]]:
    """An object, and its public methods and properties that are defined in this package."""
    yield name, each
    if inspect.isclass(each):
        for member, value in vars(each).items():
            value = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not member.startswith("_") and inspect.isfunction(value):
                yield f"{name}.{member}", value
