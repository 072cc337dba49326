"""A recurrent cell that attends over a memory, run over a sequence."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_attn._upstream import a_tape_may_record
from keras_attn.layers import attending_scan, cell_protocol
from keras_attn.layers.attention_cell import AttentionCell, with_parts
from keras_attn.layers.recurrent_checks import flat_shapes, require_states
from keras_attn.ops import masks
from keras_attn.ops.scan import scan
from keras_attn.protocols import Attention, RecurrentCell


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNN(keras.layers.Layer):
    """A recurrent cell run over a sequence, attending over a memory at every step.

    The equations are those of `AttentionCell`; the memory is projected to keys once. Dropout of the
    cell drops the same at every step of a sequence and anew in each call; that of the attention
    drops weights anew at every step. The cell and the attention compute in their own precision, the
    results are of the layer's.

    Args:
        cell: a recurrent cell, or a list of cells to stack, as in `AttentionCell`.
        attention: what reads the memory, as in `AttentionCell`.
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
        self,
        cell: RecurrentCell | Sequence[RecurrentCell],
        attention: Attention,
        return_alignments: bool = False,
        return_state: bool = False,
        **kwargs,
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
        self._require_sequences(inputs.shape, memory.shape)
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
        """Whether a call runs `ops.attention_scan` or `ops.lstm_attention_scan`.

        Their gradient is written by hand. It does for our `GRUCell`, our `LSTMCell` in every form
        and Keras', with the default activations, and our `AdditiveAttention` or `LuongAttention`,
        in one dtype and without active dropout: there it computes what the cell computes, and both
        passes take 0.5 to 0.7 of the time (64 sequences of 30 steps, a memory of 30, 256 wide).
        Every other cell is run step by step and differentiated by TensorFlow.
        """
        cell, attention = self.cell.cell, self.cell.attention
        return (
            attending_scan.is_scanned(cell, attention)
            and not (training and (cell.dropout or cell.recurrent_dropout or attention.dropout))
            and self.compute_dtype == cell.compute_dtype == attention.compute_dtype
        )

    def _run_by_hand(self, inputs, memory, mask, memory_mask, initial_state, training):
        """Outputs (B, T, units + m), alignments (B, T, S) and the states, by a scan of `ops`."""
        return attending_scan.scan(
            self.cell.cell,
            self.cell.attention,
            inputs,
            memory,
            initial_state,
            mask,
            memory_mask,
            saves=bool(training) or a_tape_may_record(),
        )

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

    def compute_output_spec(
        self, inputs, memory, mask=None, memory_mask=None, initial_state=None, training=None
    ):
        self._require_sequences(inputs.shape, memory.shape)
        masks.require_symbolic_step_mask(mask, inputs.shape)
        masks.require_symbolic_step_mask(memory_mask, memory.shape, "memory_mask")
        return super().compute_output_spec(inputs, memory, initial_state=initial_state)

    def compute_mask(self, inputs, mask=None):
        others = self.return_alignments + self.return_state * len(self._state_sizes())
        return [mask, *[None] * others] if others else mask

    def compute_output_shape(self, inputs_shape, memory_shape, initial_state_shape=None):
        self._require_sequences(inputs_shape, memory_shape)
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

    def _require_sequences(self, inputs_shape, memory_shape):
        _require_sequences(inputs_shape, memory_shape)
        self.cell.require_built_features(inputs_shape, memory_shape)

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
        return cls(**with_parts(config, custom_objects))


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
