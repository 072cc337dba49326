"""Keras finds our classes in files once the library is imported, before or after Keras."""

import importlib
import importlib.util
import sys

PUBLIC_CLASSES = ("keras_attn.layers", "keras_attn.losses", "keras_attn.models")


def register_with_keras() -> None:
    """Import what registers our classes: now, or right after Keras is imported.

    Keras is slow to import, so that importing the library does not do it.
    """
    if "keras" in sys.modules:
        _import_public_classes()
    else:
        sys.meta_path.insert(0, _FinderOfKeras())


def _import_public_classes() -> None:
    if any(name in sys.modules for name in PUBLIC_CLASSES):
        return  # one of them is being imported, and imports what it needs
    for name in PUBLIC_CLASSES:
        importlib.import_module(name)


class _FinderOfKeras:
    """Finds Keras as Python would, and imports our classes after it has run."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        # Whoever asks for the spec need not import what it stands for.
        sys.meta_path.insert(0, self)
        if spec is not None:
            spec.loader.exec_module = self._and_register(spec.loader.exec_module)
        return spec

    def _and_register(self, run):
        def run_and_register(module):
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _import_public_classes()

        return run_and_register
