"""A table of learned rows, looked up by position."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attn.ops.angles import position_tensor


def position_rows(table, positions):
    """The rows of a table (L, dim) at integer positions (...): (..., dim).

    A position outside the table raises `ValueError` where it is known, eagerly or from the shapes;
    in a graph it stops the run with an error. XLA has no such stop: there it takes another row.
    """
    positions = position_tensor(positions)
    dtype = keras.backend.standardize_dtype(positions.dtype)
    if "int" not in dtype:
        raise ValueError(
            f"Positions in a table must be integers. Received: positions.dtype={dtype}"
        )
    with tf.control_dependencies(_outside(positions, table.shape[0])):
        return ops.take(table, positions, axis=0)


def _outside(positions, size):
    """Raise `ValueError` for positions outside the table, or return the checks of a graph."""
    rule = (
        f"Positions must lie in the table, from 0 to {size - 1}: raise `max_length` or shorten the "
        "sequences."
    )
    known = tf.get_static_value(positions)
    if known is None:
        return [
            tf.debugging.assert_non_negative(positions, rule),
            tf.debugging.assert_less(positions, tf.cast(size, positions.dtype), rule),
        ]
    if np.any((known < 0) | (known >= size)):
        raise ValueError(
            f"{rule} Received: max_length={size}, smallest_position={known.min()}, "
            f"largest_position={known.max()}"
        )
    return []
