"""Lets Keras load what the library saved after `import keras_attn` alone.

Keras finds a class by the name under which it was registered, when its module was imported. Those
modules import Keras, which takes seconds: they are imported at once if Keras is there already,
which takes a twentieth of a second, and else as soon as somebody has imported it.
"""

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder

_MODULES = ("keras_attn.layers", "keras_attn.losses", "keras_attn.models")


def register_with_keras() -> None:
    """Import all public classes of layers, losses and models, now or after Keras."""
    if "keras" in sys.modules:
        _import_classes()
    else:
        sys.meta_path.insert(0, _AfterKeras())


def _import_classes() -> None:
    for name in _MODULES:
        importlib.import_module(name)


class _AfterKeras(MetaPathFinder):
    """Imports the classes once, after Keras or that part of the library which is importing it."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in ("keras", "keras_attn.ops", *_MODULES):
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)  # as it is found without this
        sys.meta_path.insert(0, self)
        if spec is not None:
            spec.loader.exec_module = self._importing_classes_after(spec.loader.exec_module)
        return spec

    def _importing_classes_after(self, run):
        def exec_module(module):
            is_first = self in sys.meta_path
            if is_first:
                sys.meta_path.remove(self)
            run(module)
            if is_first:
                _import_classes()

        return exec_module
