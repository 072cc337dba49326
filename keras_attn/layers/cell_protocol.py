"""How a layer runs the recurrent cell that it wraps, of which it asks no more than Keras does.

That is `keras_attn.protocols.RecurrentCell`. What a cell may have beside it, the protocols that
begin with `Supports`, is used where it is there.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import keras
from keras import ops

from keras_attn.protocols import (
    RecurrentCell,
    SupportsCells,
    SupportsComputeDtype,
    SupportsDropoutMasks,
    SupportsDropoutReset,
    SupportsInitialState,
    SupportsOutputSize,
)


def require_cell(cell) -> RecurrentCell:
    """Return a cell, for a list of cells their stack, or raise `ValueError`."""
    if isinstance(cell, list | tuple):
        return keras.layers.StackedRNNCells([require_cell(each) for each in cell])
    is_cell = isinstance(cell, RecurrentCell) and callable(cell.call)
    if not is_cell or cell.state_size is None:
        raise ValueError(
            "A recurrent cell has a method `call(inputs, states)` and a `state_size`, an integer "
            f"or a list of integers; a layer over sequences has a `cell`. Received: cell={cell!r}"
        )
    return cell


def state_sizes(cell: RecurrentCell) -> list[int]:
    """The sizes of all states of a cell, flat."""
    return keras.tree.flatten(cell.state_size)


def output_size(cell: RecurrentCell) -> int:
    """The features of a cell's output: those of its first state unless it says otherwise."""
    size = cell.output_size if isinstance(cell, SupportsOutputSize) else None
    return state_sizes(cell)[0] if size is None else size


def compute_dtype(cell: RecurrentCell, default: str) -> str:
    """The dtype in which a cell computes, which an object that is no layer need not have."""
    return cell.compute_dtype if isinstance(cell, SupportsComputeDtype) else default


def initial_states(cell: RecurrentCell, batch_size, dtype: str) -> list:
    """The states of a cell before the first step, a list also where there is one.

    Args:
        cell: the cell.
        batch_size: B.
        dtype: of the zeros for a cell that does not make its own states.
    """
    if isinstance(cell, SupportsInitialState):
        return as_list(cell.get_initial_state(batch_size=batch_size))
    return keras.tree.map_structure(
        lambda size: ops.zeros((batch_size, size), dtype=dtype), as_list(cell.state_size)
    )


def take_step(cell: RecurrentCell, inputs, states: list, training):
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
def one_dropout_mask(cell: RecurrentCell, features: int, states: list, training) -> Iterator[None]:
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


def forget_masks(cell: RecurrentCell, method: str) -> None:
    """Call a method of `SupportsDropoutReset` of a cell and of those it stacks."""
    if isinstance(cell, SupportsDropoutReset):
        getattr(cell, method)()
    for inner in _stacked(cell):
        forget_masks(inner, method)


def _draw_masks(cell, features, states):
    first = keras.tree.flatten(states)[0]
    if isinstance(cell, SupportsDropoutMasks):
        dtype = compute_dtype(cell, first.dtype)
        cell.get_dropout_mask(ops.zeros((ops.shape(first)[0], features), dtype=dtype))
        cell.get_recurrent_dropout_mask(ops.cast(first, dtype))
    for inner, inner_states in zip(_stacked(cell), states, strict=False):
        _draw_masks(inner, features, as_list(inner_states))
        features = output_size(inner)


def _stacked(cell):
    return cell.cells if isinstance(cell, SupportsCells) else ()


def as_list(states) -> list:
    """The states of a cell as a list, also where it gives one alone."""
    return list(states) if isinstance(states, list | tuple) else [states]
