"""What the library needs of Keras and TensorFlow that neither offers publicly, each thing once."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras.src.backend import AutocastScope
from tensorflow.python.eager import record
from tensorflow.python.saved_model import save_context


@contextmanager
def own_precision(layer: keras.layers.Layer) -> Iterator[None]:
    """Read the weights of a layer in its compute dtype, as its call does.

    A method of a layer other than `call` reads them in the precision of the layer whose call is
    under way, which may be another one.
    """
    with AutocastScope(layer.compute_dtype):
        yield


def a_tape_may_record() -> bool:
    """Whether a gradient tape is active here, also around the graph that is traced."""
    return record.could_possibly_record()


def is_being_saved() -> bool:
    """Whether what is traced becomes part of a SavedModel."""
    return save_context.in_save_context()
