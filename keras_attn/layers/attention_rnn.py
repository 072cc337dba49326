"""A recurrent cell that attends over a memory, and the layer that runs it over a sequence."""

import copy
import inspect

import keras
from keras import ops

from keras_attn._upstream import a_tape_may_record
from keras_attn.layers import cell_protocol
from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.gru import GRUCell
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.recurrent_checks import (
    flat_shapes,
    has_default_activations,
    require_states,
)
from keras_attn.ops import masks
from keras_attn.ops.attention_scan import attention_scan
from keras_attn.ops.scan import scan


@keras.saving.register_keras_serializable(package="keras_attn")
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
            cells, or any object with `call` and `state_size`); its first state is the query.
        attention: `AdditiveAttention` or `LuongAttention`.

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

    def __init__(self, cell, attention, **kwargs):
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
        sizes = cell_protocol.state_sizes(self.cell)
        require_states(states_shapes, sizes, inputs_shape[0], len(sizes), name="states")

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
        return cls(**_with_parts(config, custom_objects))


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNN(keras.layers.Layer):
    """A recurrent cell run over a sequence, attending over a memory at every step.

    The equations are those of `AttentionCell`; the memory is projected to keys once. Dropout of the
    cell drops the same at every step of a sequence and anew in each call; that of the attention
    drops weights anew at every step. The cell and the attention compute in their own precision, the
    results are of the layer's.

    Args:
        cell: a recurrent cell, or a list of cells to stack; see `AttentionCell`.
        attention: `AdditiveAttention` or `LuongAttention`.
        return_alignments: also return the alignments.
        return_state: also return the final states.

    Call arguments:
        inputs: (B, T, d).
        memory: (B, S, m).
        mask: (B, T) boolean; at a masked step the state stays and the output is that of the step
            before (zeros where there is none), the alignment is 0. Taken from the Keras mask of
            `inputs` if not given.
        memory_mask: (B, S) boolean, True = attend. Taken from the Keras mask of `memory` if not
            given.
        initial_state: list of the cell's states, (B, units) each, nested as they are in the cell
            or flat; zeros by default.
        training: whether dropout is on.

    Returns:
        outputs (B, T, units + m), `[cell output; context]` [, alignments (B, T, S)] [, *states],
        each state (B, units).

    Raises:
        ValueError: a cell without `call` or `state_size`, inputs or a memory that are no sequences
            of vectors, a mask that is not boolean or does not fit, an `initial_state` of another
            number or shape.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import AdditiveAttention, AttentionRNN, GRUCell
    >>> rnn = AttentionRNN(GRUCell(8), AdditiveAttention(4), return_alignments=True)
    >>> outputs, alignments = rnn(np.ones((2, 7, 3)), np.ones((2, 5, 6)))
    >>> tuple(outputs.shape), tuple(alignments.shape)
    ((2, 7, 14), (2, 7, 5))

    Reference:
        Bahdanau et al. 2014, as for `AttentionCell`.
    """

    def __init__(
        self, cell, attention, return_alignments: bool = False, return_state: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        self.cell = AttentionCell(cell, attention, dtype=self.dtype_policy)
        self.return_alignments = return_alignments
        self.return_state = return_state
        self.supports_masking = True

    def build(self, inputs_shape, memory_shape=None):
        _require_sequences(inputs_shape, memory_shape)
        step_shape = (inputs_shape[0], inputs_shape[-1])
        self.cell.build(step_shape, memory_shape=tuple(memory_shape))

    def call(self, inputs, memory, mask=None, memory_mask=None, initial_state=None, training=None):
        _require_sequences(inputs.shape, memory.shape)
        mask, memory_mask = masks.carried(inputs, mask), masks.carried(memory, memory_mask)
        inputs, memory = (ops.cast(x, self.compute_dtype) for x in (inputs, memory))
        if mask is not None:
            mask = masks.require_step_mask(mask, *ops.shape(inputs)[:2])
        memory_mask = masks.padding(memory_mask, ops.shape(memory)[:2], "memory_mask")
        states = self._starting_states(inputs, initial_state)
        features = inputs.shape[-1] + memory.shape[-1]
        run = self._run_by_hand if self.has_own_gradient(training) else self._run_cell
        with cell_protocol.one_dropout_mask(self.cell.cell, features, states, training):
            outputs, alignments, states = run(inputs, memory, mask, memory_mask, states, training)
        returned = [outputs]
        if self.return_alignments:
            returned.append(alignments)
        if self.return_state:
            states = keras.tree.flatten(states)
            returned += [ops.cast(state, self.compute_dtype) for state in states]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _starting_states(self, inputs, initial_state) -> list:
        """The states before the first step, nested as the cell has them and in its precision."""
        at_rest = self.cell.get_initial_state(batch_size=ops.shape(inputs)[0])
        if initial_state is None:
            return at_rest
        given = keras.tree.flatten(initial_state)
        sizes = self._state_sizes()
        require_states([state.shape for state in given], sizes, inputs.shape[0], len(sizes))
        flat = keras.tree.flatten(at_rest)
        given = [ops.cast(state, old.dtype) for state, old in zip(given, flat, strict=True)]
        return keras.tree.pack_sequence_as(at_rest, given)

    def has_own_gradient(self, training: bool = False) -> bool:
        """Whether a call runs `ops.attention_scan`, whose gradient is written by hand.

        It does for our `GRUCell` with its default activations and our `AdditiveAttention` or
        `LuongAttention`, in one dtype and without active dropout: there it computes what the cell
        computes, and both passes take 0.5 to 0.7 of the time (64 sequences of 30 steps, a memory
        of 30, 256 wide). Every other cell is run step by step and differentiated by TensorFlow.
        """
        cell, attention = self.cell.cell, self.cell.attention
        return (
            type(cell) is GRUCell
            and type(attention) in _WEIGHTS_OF
            and has_default_activations(cell)
            and not (training and (cell.dropout or cell.recurrent_dropout or attention.dropout))
            and self.compute_dtype == cell.compute_dtype == attention.compute_dtype
        )

    def _run_by_hand(self, inputs, memory, mask, memory_mask, initial_state, training):
        """Outputs (B, T, units + m), alignments (B, T, S) and the states of `attention_scan`."""
        cell, attention = self.cell.cell, self.cell.attention
        keys, of_attention = _WEIGHTS_OF[type(attention)](
            attention, attention.project_memory(memory, memory_mask)
        )
        outputs, alignments, state = attention_scan(
            inputs,
            memory,
            keys,
            initial_state[0],
            **cell.scan_weights(),
            **{
                name: weight if weight is None else ops.cast(weight, self.compute_dtype)
                for name, weight in of_attention.items()
            },
            reset_after=cell.reset_after,
            mask=mask,
            memory_mask=memory_mask,
            saves=bool(training) or a_tape_may_record(),
        )
        return outputs, alignments, [state]

    def _run_cell(self, inputs, memory, mask, memory_mask, initial_state, training):
        """Outputs (B, T, units + m), alignments (B, T, S) and the states of any cell, by `scan`."""
        keys = self.cell.attention.project_memory(memory, memory_mask)

        def step(inputs_t, states):
            *outputs, states = self.cell(
                inputs_t, states, memory, memory_mask=memory_mask, keys=keys, training=training
            )
            return tuple(ops.cast(each, self.compute_dtype) for each in outputs), states

        batch, length = ops.shape(inputs)[:2]
        source_length = ops.shape(memory)[1]
        output_units = cell_protocol.output_size(self.cell.cell) + memory.shape[-1]
        at_rest = (
            ops.zeros((batch, output_units), dtype=self.compute_dtype),
            ops.zeros((batch, source_length), dtype=self.compute_dtype),
        )
        (outputs, alignments), states = scan(
            step, inputs, initial_state, mask=mask, initial_outputs=at_rest
        )
        alignments = ops.reshape(alignments, (batch, length, source_length))
        if mask is not None:
            alignments = masks.clear_hidden(alignments, mask)
        return outputs, alignments, states

    def compute_mask(self, inputs, mask=None):
        others = self.return_alignments + self.return_state * len(self._state_sizes())
        return [mask, *[None] * others] if others else mask

    def compute_output_shape(self, inputs_shape, memory_shape, initial_state_shape=None):
        _require_sequences(inputs_shape, memory_shape)
        batch, length = inputs_shape[:2]
        sizes = self._state_sizes()
        if initial_state_shape is not None:
            require_states(flat_shapes(initial_state_shape), sizes, batch, len(sizes))
        units = cell_protocol.output_size(self.cell.cell)
        shapes = [(batch, length, units + memory_shape[-1])]
        if self.return_alignments:
            shapes.append((batch, length, memory_shape[1]))
        if self.return_state:
            shapes += [(batch, size) for size in sizes]
        return tuple(shapes) if len(shapes) > 1 else shapes[0]

    def _state_sizes(self) -> list[int]:
        return cell_protocol.state_sizes(self.cell)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell.cell),
            "attention": keras.saving.serialize_keras_object(self.cell.attention),
            "return_alignments": self.return_alignments,
            "return_state": self.return_state,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**_with_parts(config, custom_objects))


def _of_additive(attention, keys):
    """The keys, and the weights by which `ops.attention_scan` scores them."""
    return keys, {
        "query_kernel": attention.query_kernel,
        "query_bias": attention.bias,
        "score_vector": attention.score_vector,
        "score_scale": attention.score_scale,
    }


def _of_product(attention, keys):
    scale = attention.score_scale
    return (keys if scale is None else keys * ops.cast(scale, keys.dtype)), {}


_WEIGHTS_OF = {AdditiveAttention: _of_additive, LuongAttention: _of_product}


def _require_sequences(inputs_shape, memory_shape):
    shapes = [None if shape is None else tuple(shape) for shape in (inputs_shape, memory_shape)]
    sequences = all(shape is not None and len(shape) == 3 for shape in shapes)
    if not sequences or None in (shapes[0][-1], shapes[1][-1]) or not _one_batch(*shapes):
        raise ValueError(
            "The layer takes sequences of vectors, (batch, time, features), and a memory, (batch, "
            "positions, features), of one batch size and with known features. "
            f"Received: inputs.shape={shapes[0]}, memory.shape={shapes[1]}"
        )


def _one_batch(inputs_shape, memory_shape) -> bool:
    sizes = inputs_shape[0], memory_shape[0]
    return None in sizes or sizes[0] == sizes[1]


def _require_attention(attention):
    """Return an attention that a cell can step with, or raise `ValueError`."""
    attend = getattr(attention, "attend", None)
    takes = set(inspect.signature(attend).parameters) if callable(attend) else set()
    if not takes >= {"query", "keys", "values", "mask", "training"}:
        raise ValueError(
            "The attention of a cell is an `AdditiveAttention`, a `LuongAttention` or a layer with "
            "their methods `project_memory(memory, mask)` and `attend(query, keys, values, mask, "
            "training)`. "
            f"Received: attention={attention!r}"
        )
    return attention


def _of_additive(attention, keys):
    """The keys, and the weights by which `ops.attention_scan` scores them."""
    return keys, {
        "query_kernel": attention.query_kernel,
        "query_bias": attention.bias,
        "score_vector": attention.score_vector,
        "score_scale": attention.score_scale,
    }


def _of_product(attention, keys):
    scale = attention.score_scale
    return (keys if scale is None else keys * ops.cast(scale, keys.dtype)), {}


_WEIGHTS_OF = {AdditiveAttention: _of_additive, LuongAttention: _of_product}


def _require_sequences(inputs_shape, memory_shape):
    shapes = [None if shape is None else tuple(shape) for shape in (inputs_shape, memory_shape)]
    sequences = all(shape is not None and len(shape) == 3 for shape in shapes)
    if not sequences or None in (shapes[0][-1], shapes[1][-1]) or not _one_batch(*shapes):
        raise ValueError(
            "The layer takes sequences of vectors, (batch, time, features), and a memory, (batch, "
            "positions, features), of one batch size and with known features. "
            f"Received: inputs.shape={shapes[0]}, memory.shape={shapes[1]}"
        )


def _one_batch(inputs_shape, memory_shape) -> bool:
    sizes = inputs_shape[0], memory_shape[0]
    return None in sizes or sizes[0] == sizes[1]


def _flat_shapes(shapes) -> list[tuple]:
    """The shapes in a nest of them."""
    if all(size is None or isinstance(size, int) for size in shapes):
        return [tuple(shapes)]
    return [flat for shape in shapes for flat in _flat_shapes(shape)]


def _with_parts(config, custom_objects) -> dict:
    """The config with its cell and attention rebuilt."""
    # A copy, for Keras' stack of cells takes its cells out of the config that it is made from.
    parts = {name: copy.deepcopy(config[name]) for name in ("cell", "attention")}
    rebuilt = {
        name: keras.saving.deserialize_keras_object(part, custom_objects=custom_objects)
        for name, part in parts.items()
    }
    return {**config, **rebuilt}
