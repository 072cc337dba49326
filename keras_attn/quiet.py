"""TensorFlow without its start-up messages, for commands."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def import_tensorflow() -> None:
    """Import TensorFlow, its text operations and Keras without the lines they log on the way.

    The libraries write to the process's standard error before any setting of theirs is read, so it
    is turned away during the import; if the import fails, what was written is shown.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with _standard_error_unless_failed():
        import keras  # noqa: F401
        import tensorflow as tf
        import tensorflow_text  # noqa: F401

        tf.config.list_physical_devices()  # the search for a GPU logs too


@contextmanager
def _standard_error_unless_failed() -> Iterator[None]:
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(original, kept.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)
