"""Recurrence and attention for Keras 3: layers, published models, training, export and serving.

Importing the package loads nothing heavy: a submodule (and with it TensorFlow) is imported when it
is first used, `keras_attn.layers.GRU` for example. Beside Keras, whichever is imported first, it
registers its layers, losses and models, so that `keras.models.load_model` finds them.
"""

import importlib

from keras_attn.registration import register_with_keras
from keras_attn.version import __version__

_SUBMODULES = (
    "analysis",
    "data",
    "decoding",
    "layers",
    "losses",
    "models",
    "ops",
    "protocols",
    "recipes",
    "serving",
    "text",
    "training",
)

__all__ = ["__version__", *_SUBMODULES]


def __getattr__(name: str):
    if name in _SUBMODULES:
        return importlib.import_module(f"keras_attn.{name}")
    raise AttributeError(f"module 'keras_attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES])


register_with_keras()
