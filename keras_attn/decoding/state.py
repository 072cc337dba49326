"""The nest of tensors that a step takes and returns, made flat for the loop."""

import tensorflow as tf
from keras import tree


class StateNest:
    """A nest of state tensors with the same leading dimension, and its flat list of tensors.

    In a dict, what lies under the key `"memory"` belongs to the example, not to the hypothesis:
    it is expanded to the beams with the rest, but never reordered. A leaf may be None.

    Attributes:
        leaves: the tensors, in the order of the nest.
    """

    def __init__(self, state, batch_size):
        flat = tree.flatten_with_path(state)
        self._structure = state
        self._present = [leaf is not None for _, leaf in flat]
        flat = [(path, leaf) for path, leaf in flat if leaf is not None]
        self._paths = [path for path, _ in flat]
        self._in_memory = ["memory" in path for path in self._paths]
        self.leaves = [tf.convert_to_tensor(leaf) for _, leaf in flat]
        self._check_batch(batch_size)

    def pack(self, leaves):
        """The nest that holds `leaves`."""
        remaining = iter(leaves)
        flat = [next(remaining) if present else None for present in self._present]
        return tree.pack_sequence_as(self._structure, flat)

    def flatten(self, state, like):
        """The tensors of a state that a step returned; they must fit the tensors `like`."""
        flat = tree.flatten_with_path(state)
        paths = [path for path, leaf in flat if leaf is not None]
        if paths != self._paths:
            raise ValueError(
                "A step must return a state of the structure it was given, "
                f"{[_name(path) for path in self._paths]}. "
                f"Received: state={[_name(path) for path in paths]}"
            )
        leaves = [tf.convert_to_tensor(leaf) for _, leaf in flat if leaf is not None]
        return [
            _keep_shape(leaf, old, path)
            for leaf, old, path in zip(leaves, like, paths, strict=True)
        ]

    def expand(self, beam_width):
        """Repeat every example for its beams: (B, ...) -> (B * W, ...)."""
        if beam_width == 1:
            return self.leaves
        return [tf.repeat(leaf, beam_width, axis=0) for leaf in self.leaves]

    def reorder(self, leaves, rows):
        """Take the rows (N,) of every tensor that is not memory."""
        return [
            leaf if in_memory else tf.ensure_shape(tf.gather(leaf, rows), leaf.shape)
            for leaf, in_memory in zip(leaves, self._in_memory, strict=True)
        ]

    def _check_batch(self, batch_size):
        expected = tf.get_static_value(batch_size)
        for index, (path, leaf) in enumerate(zip(self._paths, self.leaves, strict=True)):
            shape = leaf.shape
            wrong = shape.rank == 0 or (
                shape.rank and expected is not None and shape[0] not in (None, expected)
            )
            if wrong:
                raise ValueError(
                    "Every state tensor must have the batch as its leading dimension, "
                    f"batch_size={expected if expected is not None else 'unknown'}. "
                    f"Received: {_name(path)}.shape={shape}"
                )
            if shape.rank is None or shape[0] is None or expected is None:
                check = tf.debugging.assert_equal(
                    tf.shape(leaf)[0],
                    tf.cast(batch_size, tf.int32),
                    f"The leading dimension of {_name(path)} must be batch_size.",
                )
                with tf.control_dependencies([check] if check is not None else []):
                    self.leaves[index] = tf.identity(leaf)


def _keep_shape(leaf, old, path):
    if leaf.dtype != old.dtype or not leaf.shape.is_compatible_with(old.shape):
        raise ValueError(
            "A step must return every state tensor with the shape and dtype it was given, "
            f"{old.shape} {old.dtype.name} (a cache is allocated at its full length). "
            f"Received: {_name(path)}.shape={leaf.shape}, dtype={leaf.dtype.name}"
        )
    # The loop must leave with the static shape it was entered with.
    return tf.ensure_shape(leaf, old.shape)


def _name(path) -> str:
    return "state" + "".join(f"[{key!r}]" for key in path)
