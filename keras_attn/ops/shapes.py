"""Shapes of tensors of which some sizes are known while a graph is traced."""

import tensorflow as tf


def sizes(x) -> list:
    """The sizes of a tensor, static where known."""
    return [tf.shape(x)[n] if size is None else size for n, size in enumerate(x.shape)]
