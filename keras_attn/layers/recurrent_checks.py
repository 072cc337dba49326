"""What the recurrent layers ask of cells, sequences and states."""

import keras
import tensorflow as tf

TANH = (keras.activations.tanh, keras.ops.tanh, tf.tanh)
SIGMOID = (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid)


def has_default_activations(cell) -> bool:
    """Whether a cell has the tanh and the sigmoid of the papers, under whatever name."""
    return cell.activation in TANH and cell.recurrent_activation in SIGMOID


def in_precision_of(cell, inputs, states) -> tuple:
    """The inputs and the list of states of a cell's step as numbers of its compute dtype.

    Keras casts what is floating when it calls a cell, but neither integers nor booleans.

    Raises:
        ValueError: if they do not have the shapes (batch, features) and (batch, size).
    """
    inputs, *states = (keras.ops.cast(x, cell.compute_dtype) for x in (inputs, *states))
    if len(inputs.shape) != 2:
        raise ValueError(
            "A cell takes one step of a batch, (batch, features); a layer takes sequences. "
            f"Received: inputs.shape={tuple(inputs.shape)}"
        )
    sizes = keras.tree.flatten(cell.state_size)
    shapes = [state.shape for state in states]
    require_states(shapes, sizes, inputs.shape[0], len(sizes), name="states")
    return inputs, states


def require_sequences(shape):
    """Raise `ValueError` unless the shape is that of a batch of sequences of vectors."""
    if len(shape) != 3:
        raise ValueError(
            "A recurrent layer takes sequences of vectors, (batch, time, features). "
            f"Received: sequences.shape={tuple(shape)}"
        )
    if shape[-1] is None:
        raise ValueError(
            "A recurrent layer must know the number of features of its input when it is built. "
            f"Received: sequences.shape={tuple(shape)}"
        )


def require_features(name: str, shape, built_for: int | None):
    """Raise `ValueError` unless sequences have the features that a layer was built for."""
    if built_for is not None and shape[-1] != built_for:
        raise ValueError(
            f"The layer was built for `{name}` of {built_for} features. "
            f"Received: {name}.shape={tuple(shape)}"
        )


def require_states(shapes, sizes, batch_size, required: int, name: str = "initial_state"):
    """Raise `ValueError` unless the shapes are those of the states of a cell.

    Args:
        shapes: list of the shapes of the states given.
        sizes: list of the sizes of all states of the cell.
        batch_size: of the sequences, None if unknown.
        required: how many states must be given at least.
        name: what the caller calls them, for the error.
    """
    shapes = [tuple(shape) for shape in shapes]
    if not required <= len(shapes) <= len(sizes):
        raise ValueError(
            f"`{name}` must hold {len(sizes)} states of sizes {list(sizes)}. "
            f"Received: {name} of {len(shapes)} tensors of shapes {shapes}"
        )
    for shape, size in zip(shapes, sizes, strict=False):
        size_fits = len(shape) == 2 and shape[1] in (None, size)
        if not size_fits or (shape[0] != batch_size and None not in (shape[0], batch_size)):
            wanted = [(batch_size, size) for size in sizes[: len(shapes)]]
            raise ValueError(
                f"The states of `{name}` must have the shapes {wanted}. "
                f"Received: {name} of shapes {shapes}"
            )


def flat_shapes(shapes) -> list[tuple]:
    """The shapes in a nest of them."""
    if all(size is None or isinstance(size, int) for size in shapes):
        return [tuple(shapes)]
    return [flat for shape in shapes for flat in flat_shapes(shape)]
