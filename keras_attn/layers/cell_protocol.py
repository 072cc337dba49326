"""How a layer runs the recurrent cell that it wraps, of which it asks no more than Keras does.

A cell has `call(inputs, states[, training]) -> (output, states)` and `state_size`, an integer or a
nest of them. `get_initial_state(batch_size)`, `output_size` and a dtype are used where it has them.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras import ops


def require_cell(cell):
    """Return a cell, for a list of cells their stack, or raise `ValueError`."""
    if isinstance(cell, list | tuple):
        return keras.layers.StackedRNNCells([require_cell(each) for each in cell])
    if not callable(getattr(cell, "call", None)) or getattr(cell, "state_size", None) is None:
        raise ValueError(
            "A recurrent cell has a method `call(inputs, states)` and a `state_size`, an integer "
            f"or a list of integers; a layer over sequences has a `cell`. Received: cell={cell!r}"
        )
    return cell


def state_sizes(cell) -> list[int]:
    """The sizes of all states of a cell, flat."""
    return keras.tree.flatten(cell.state_size)


def output_size(cell) -> int:
    """The features of a cell's output: those of its first state unless it says otherwise."""
    size = getattr(cell, "output_size", None)
    return state_sizes(cell)[0] if size is None else size


def compute_dtype(cell, default: str) -> str:
    """The dtype in which a cell computes, which an object that is no layer need not have."""
    return getattr(cell, "compute_dtype", default)


def initial_states(cell, batch_size, dtype: str) -> list:
    """The states of a cell before the first step, a list also where there is one.

    Args:
        cell: the cell.
        batch_size: B.
        dtype: of the zeros for a cell that does not make its own states.
    """
    make = getattr(cell, "get_initial_state", None)
    if make is not None:
        return as_list(make(batch_size=batch_size))
    return keras.tree.map_structure(
        lambda size: ops.zeros((batch_size, size), dtype=dtype), as_list(cell.state_size)
    )


def take_step(cell, inputs, states: list, training):
    """One step: the output (B, units) and a list of states, in the dtypes of the states given."""
    run = cell if callable(cell) else cell.call
    takes_training = "training" in inspect.signature(cell.call).parameters
    options = {"training": training} if takes_training else {}
    output, new_states = run(inputs, states, **options)
    new, old = keras.tree.flatten(new_states), keras.tree.flatten(states)
    if len(new) != len(old):
        raise ValueError(
            "A recurrent cell must return as many states as it was given, here "
            f"{len(old)}. Received: {len(new)} states from cell={cell!r}"
        )
    # A stack of one cell returns the states of that cell alone: what is flat is the same.
    same = [ops.cast(n, o.dtype) for n, o in zip(new, old, strict=True)]
    return output, keras.tree.pack_sequence_as(states, same)


@contextmanager
def one_dropout_mask(cell, features: int, states: list, training) -> Iterator[None]:
    """Within this a cell drops the same at every step; afterwards it draws anew.

    The masks are drawn before the steps, for a loop in a graph can make nothing that outlives it.

    Args:
        cell: the cell; each cell of a stack draws its own.
        features: of the cell's inputs.
        states: its states before the first step.
        training: whether dropout is on.
    """
    try:
        if training:
            _draw_masks(cell, features, states)
        yield
    finally:
        forget_masks(cell, "reset_dropout_mask")
        forget_masks(cell, "reset_recurrent_dropout_mask")


def forget_masks(cell, method: str) -> None:
    """Call `method`, by which Keras' cells forget a dropout mask, of a cell and those it stacks."""
    reset = getattr(cell, method, None)
    if reset is not None:
        reset()
    for inner in getattr(cell, "cells", ()):
        forget_masks(inner, method)


def _draw_masks(cell, features, states):
    first = keras.tree.flatten(states)[0]
    if hasattr(cell, "get_dropout_mask"):
        dtype = compute_dtype(cell, first.dtype)
        cell.get_dropout_mask(ops.zeros((ops.shape(first)[0], features), dtype=dtype))
        cell.get_recurrent_dropout_mask(ops.cast(first, dtype))
    for inner, inner_states in zip(getattr(cell, "cells", ()), states, strict=False):
        _draw_masks(inner, features, as_list(inner_states))
        features = output_size(inner)


def as_list(states) -> list:
    """The states of a cell as a list, also where it gives one alone."""
    return list(states) if isinstance(states, list | tuple) else [states]
