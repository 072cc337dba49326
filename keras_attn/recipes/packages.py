"""Packages that a run needs at its end, looked for at its start."""

import importlib
from collections.abc import Iterable

from keras_attn.errors import UserError

# The extra of this package that brings each of them.
_EXTRAS = {
    "babel": "demo",
    "matplotlib": "demo",
    "sacrebleu": "translation",
    "sentencepiece": "translation",
    "tensorflow_serving": "demo",
    "uvicorn": "demo",
}


def require_packages(names: Iterable[str], what: str) -> None:
    """Raise `UserError` unless these packages can be imported.

    Args:
        names: of packages, as they are imported.
        what: needs them, for the sentence: `The recipe translation`.

    Example:
        >>> require_packages(["json"], "This example")
    """
    missing = [name for name in names if not _is_there(name)]
    if missing:
        extras = sorted({_EXTRAS[name] for name in missing if name in _EXTRAS})
        install = f"keras-attn[{','.join(extras)}]" if extras else " ".join(missing)
        raise UserError(
            f"{what} needs {' and '.join(missing)}, which cannot be imported: pip install "
            f'"{install}".'
        )


def _is_there(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
