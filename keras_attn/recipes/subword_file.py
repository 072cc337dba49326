"""Where a run keeps the subwords that it learned."""

from pathlib import Path

from keras_attn.errors import UserError

SUBWORD_FILE = "subwords.model"


def read_subword_model(run_path: Path) -> bytes:
    """The SentencePiece model of a run directory.

    Raises:
        UserError: if the run has none.
    """
    path = run_path / SUBWORD_FILE
    if not path.is_file():
        raise UserError(f"{run_path} has no {SUBWORD_FILE}; train a translation recipe into it.")
    return path.read_bytes()
