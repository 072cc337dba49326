"""SavedModel export, and the embedded REST server that speaks TensorFlow Serving's contract.

A name is imported when it is first used, so that the command line starts without TensorFlow, the
HTTP server and the protobuf package.
"""

import importlib

_MODULES = {
    "AllVersions": "model_config",
    "CaptionModel": "caption_model",
    "TextModel": "text_model",
    "TreeModel": "tree_model",
    "export": "saved_model",
    "LatestVersions": "model_config",
    "ModelConfig": "model_config",
    "SpecificVersions": "model_config",
    "models_from_flags": "model_config",
    "parse_model_config": "model_config",
    "read_model_config_file": "model_config",
    "running_server": "server",
    "serve": "server",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str):
    if name in _MODULES:
        module = importlib.import_module(f"keras_attn.serving.{_MODULES[name]}")
        value = getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'keras_attn.serving' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
