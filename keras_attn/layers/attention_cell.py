"""A recurrent cell that attends over a memory."""

import copy
import inspect
from collections.abc import Sequence

import keras
from keras import ops

from keras_attn.layers import cell_protocol
from keras_attn.layers.recurrent_checks import flat_shapes, require_features, require_states
from keras_attn.ops import masks
from keras_attn.protocols import Attention, RecurrentCell
from keras_attn.saved import registered


@registered
class AttentionCell(keras.layers.Layer):
    """One step of a recurrent cell that reads a memory before it moves.

    With the state s of the step before, the memory h and any attention of the library:

    `a_t = attention weights of query s_{t-1} over the keys of h`
    `c_t = sum_j a_tj h_j`
    `s_t = cell([x_t; c_t], s_{t-1})`

    It is what `tfa.seq2seq.AttentionWrapper` was, with the memory as a call argument: nothing is
    kept on the object, so the cell traces, exports and can be expanded to beams.

    The cell and the attention compute in their own precision. As with a Keras cell, the dropout
    masks of a sequence are kept from the first step on: call `reset_dropout_mask` and
    `reset_recurrent_dropout_mask` after it. `AttentionRNN` does.

    Args:
        cell: a recurrent cell (`GRUCell`, `LSTMCell`, a Keras cell, `StackedRNNCells`, a list of
            cells, or another `keras_attn.protocols.RecurrentCell`); its first state is the query.
        attention: `AdditiveAttention`, `LuongAttention` or another
            `keras_attn.protocols.Attention`.

    Call arguments:
        inputs: (B, d).
        states: list of the cell's states, each (B, units).
        memory: (B, S, m), the values that are averaged.
        memory_mask: (B, S) boolean, True = attend, or None.
        keys: (B, S, units of the attention), `attention.project_memory(memory)`; given once by a
            loop, or None to project here.
        training: whether dropout is on.

    Returns:
        `(output, alignment, states)`: output (B, units + m) is `[cell output; c_t]`, alignment
        (B, S), and the new states.

    Raises:
        ValueError: a cell without `call` or `state_size`, a mask that is not boolean or does not
            fit, a cell that is built without a memory.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import AdditiveAttention, AttentionCell, GRUCell
    >>> cell, memory = AttentionCell(GRUCell(8), AdditiveAttention(4)), np.ones((2, 5, 6))
    >>> output, alignment, states = cell(np.ones((2, 3)), cell.get_initial_state(2), memory)
    >>> tuple(output.shape), tuple(alignment.shape)
    ((2, 14), (2, 5))

    Reference:
        Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and
        Translate", section 3.1 and appendix A.1.2.
    """

    def __init__(
        self, cell: RecurrentCell | Sequence[RecurrentCell], attention: Attention, **kwargs
    ):
        # It has no weights of its own, and the states that it passes on keep their precision.
        super().__init__(autocast=False, **kwargs)
        self.cell = cell_protocol.require_cell(cell)
        self.attention = _require_attention(attention)

    @property
    def state_size(self):
        """The sizes of the cell's states."""
        return self.cell.state_size

    def get_initial_state(self, batch_size=None) -> list:
        """The cell's states before the first step, in its own precision."""
        return cell_protocol.initial_states(self.cell, batch_size, self.compute_dtype)

    def reset_dropout_mask(self):
        """Forget which inputs the cell drops, so that the next sequence drops others."""
        cell_protocol.forget_masks(self.cell, "reset_dropout_mask")

    def reset_recurrent_dropout_mask(self):
        """Forget which states the cell drops, so that the next sequence drops others."""
        cell_protocol.forget_masks(self.cell, "reset_recurrent_dropout_mask")

    def build(self, inputs_shape, states_shape=None, memory_shape=None, **shapes):
        if memory_shape is None:
            raise ValueError(
                "An attention cell is built by a call with inputs, states and memory. "
                f"Received: memory_shape={memory_shape}"
            )
        self.features = inputs_shape[-1], memory_shape[-1]
        query_units = cell_protocol.state_sizes(self.cell)[0]
        if not self.attention.built:
            self.attention.build((None, None, query_units), tuple(memory_shape))
        if isinstance(self.cell, keras.Layer) and not self.cell.built:
            self.cell.build((None, inputs_shape[-1] + memory_shape[-1]))

    def call(self, inputs, states, memory, memory_mask=None, keys=None, training=None):
        states = cell_protocol.as_list(states)
        self._require_step(
            inputs.shape, [s.shape for s in keras.tree.flatten(states)], memory.shape
        )
        memory_mask = masks.padding(memory_mask, ops.shape(memory)[:2], "memory_mask")
        if keys is None:
            keys = self.attention.project_memory(memory, memory_mask)
        context, alignment = self.attention.attend(
            keras.tree.flatten(states)[0], keys, memory, memory_mask, training=training
        )
        dtype = cell_protocol.compute_dtype(self.cell, self.compute_dtype)
        cell_inputs = ops.concatenate(
            [ops.cast(inputs, dtype), ops.cast(context, dtype)], axis=-1
        )  # (B, d + m)
        output, states = cell_protocol.take_step(self.cell, cell_inputs, states, training)
        output = [ops.cast(part, self.compute_dtype) for part in (output, context)]
        return ops.concatenate(output, axis=-1), ops.cast(alignment, self.compute_dtype), states

    def _require_step(self, inputs_shape, states_shapes, memory_shape):
        if len(inputs_shape) != 2 or len(memory_shape) != 3:
            raise ValueError(
                "An attention cell takes one step of a batch, (batch, features), and a memory, "
                "(batch, positions, features). Received: "
                f"inputs.shape={tuple(inputs_shape)}, memory.shape={tuple(memory_shape)}"
            )
        if None not in (inputs_shape[0], memory_shape[0]) and inputs_shape[0] != memory_shape[0]:
            raise ValueError(
                "The inputs and the memory of a step have one batch size. Received: "
                f"inputs.shape={tuple(inputs_shape)}, memory.shape={tuple(memory_shape)}"
            )
        self.require_built_features(inputs_shape, memory_shape)
        sizes = cell_protocol.state_sizes(self.cell)
        require_states(states_shapes, sizes, inputs_shape[0], len(sizes), name="states")

    def require_built_features(self, inputs_shape, memory_shape):
        """Raise `ValueError` unless the features are those that the cell was built for."""
        if self.built:
            require_features("inputs", inputs_shape, self.features[0])
            require_features("memory", memory_shape, self.features[1])

    def compute_output_spec(
        self, inputs, states, memory, memory_mask=None, keys=None, training=None
    ):
        states = cell_protocol.as_list(states)
        shapes = [state.shape for state in keras.tree.flatten(states)]
        masks.require_symbolic_step_mask(memory_mask, memory.shape, "memory_mask")
        output, alignment, _ = self.compute_output_shape(inputs.shape, shapes, memory.shape)
        return (
            keras.KerasTensor(output, dtype=self.compute_dtype),
            keras.KerasTensor(alignment, dtype=self.compute_dtype),
            # A step returns the states in the precision in which they are given.
            keras.tree.map_structure(lambda s: keras.KerasTensor(s.shape, dtype=s.dtype), states),
        )

    def compute_output_shape(self, inputs_shape, states_shape, memory_shape):
        self._require_step(inputs_shape, flat_shapes(states_shape), memory_shape)
        batch, source_length, features = memory_shape
        sizes = cell_protocol.as_list(self.cell.state_size)
        return (
            (batch, cell_protocol.output_size(self.cell) + features),
            (batch, source_length),
            keras.tree.map_structure(lambda size: (batch, size), sizes),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**with_parts(config, custom_objects))


def with_parts(config, custom_objects) -> dict:
    """A config with the cell and the attention in it rebuilt."""
    # A copy, for Keras' stack of cells takes its cells out of the config that it is made from.
    parts = {name: copy.deepcopy(config[name]) for name in ("cell", "attention")}
    rebuilt = {
        name: keras.saving.deserialize_keras_object(part, custom_objects=custom_objects)
        for name, part in parts.items()
    }
    return {**config, **rebuilt}


def _require_attention(attention) -> Attention:
    """Return an `Attention`, or raise `ValueError` if it is none that a cell can step with."""
    # Other attentions have methods of these names too, and take other things.
    is_attention = isinstance(attention, Attention) and callable(attention.attend)
    takes = set(inspect.signature(attention.attend).parameters) if is_attention else set()
    if not takes >= {"query", "keys", "values", "mask", "training"}:
        raise ValueError(
            "The attention of a cell is an `AdditiveAttention`, a `LuongAttention` or a layer with "
            "their methods `project_memory(memory, mask)` and `attend(query, keys, values, mask, "
            "training)`. "
            f"Received: attention={attention!r}"
        )
    return attention
