"""A recurrent cell that attends over a memory, and the layer that runs it over a sequence."""

import keras
from keras import ops

from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.gru import GRUCell
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.ops import masks
from keras_attn.ops.attention_scan import attention_scan
from keras_attn.ops.scan import scan


class AttentionCell(keras.layers.Layer):
    """One step of a recurrent cell that reads a memory before it moves.

    With the state s of the step before, the memory h and any attention of the library:

    `a_t = attention weights of query s_{t-1} over the keys of h`
    `c_t = sum_j a_tj h_j`
    `s_t = cell([x_t; c_t], s_{t-1})`

    It is what `tfa.seq2seq.AttentionWrapper` was, with the memory as a call argument: nothing is
    kept on the object, so the cell traces, exports and can be expanded to beams.

    Args:
        cell: a recurrent cell (`GRUCell`, `LSTMCell`, a Keras cell, `StackedRNNCells`); its first
            state is the query.
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

    Example:
        >>> cell = AttentionCell(GRUCell(8), AdditiveAttention(4))
        >>> memory = keras.ops.ones((2, 5, 6))
        >>> output, alignment, states = cell(
        ...     keras.ops.ones((2, 3)), cell.get_initial_state(2), memory)
        >>> output.shape, alignment.shape
        ((2, 14), (2, 5))

    Reference:
        Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and
        Translate", section 3.1 and appendix A.1.2.
    """

    def __init__(self, cell, attention, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell
        self.attention = attention

    @property
    def state_size(self):
        return self.cell.state_size

    def get_initial_state(self, batch_size=None) -> list:
        return _as_list(self.cell.get_initial_state(batch_size=batch_size))

    def build(self, inputs_shape, states_shape=None, memory_shape=None, **shapes):
        if memory_shape is None:
            raise ValueError(
                "An attention cell is built by a call with inputs, states and memory. "
                f"Received: memory_shape={memory_shape}"
            )
        query_units = keras.tree.flatten(self.cell.state_size)[0]
        if not self.attention.built:
            self.attention.build((None, None, query_units), tuple(memory_shape))
        if not self.cell.built:
            self.cell.build((None, inputs_shape[-1] + memory_shape[-1]))

    def call(self, inputs, states, memory, memory_mask=None, keys=None, training=None):
        if keys is None:
            keys = self.attention.project_memory(memory, memory_mask)
        states = _as_list(states)
        context, alignment = self.attention.attend(
            keras.tree.flatten(states)[0], keys, memory, memory_mask
        )
        cell_inputs = ops.concatenate([inputs, context], axis=-1)  # (B, d + m)
        output, states = self.cell(cell_inputs, states, training=training)
        return ops.concatenate([output, context], axis=-1), alignment, _as_list(states)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**_with_parts(config, custom_objects))


class AttentionRNN(keras.layers.Layer):
    """A recurrent cell run over a sequence, attending over a memory at every step.

    The equations are those of `AttentionCell`; the memory is projected to keys once.

    Args:
        cell: a recurrent cell; its first state is the query.
        attention: `AdditiveAttention` or `LuongAttention`.
        return_alignments: also return the alignments.
        return_state: also return the final states.

    Call arguments:
        inputs: (B, T, d).
        memory: (B, S, m).
        mask: (B, T) boolean; at a masked step the state stays and the output is that of the step
            before (zeros where there is none), the alignment is 0.
        memory_mask: (B, S) boolean, True = attend.
        initial_state: list of the cell's states, zeros by default.
        training: whether dropout is on.

    Returns:
        outputs (B, T, units + m), `[cell output; context]` [, alignments (B, T, S)] [, states].

    Example:
        >>> rnn = AttentionRNN(GRUCell(8), AdditiveAttention(4), return_alignments=True)
        >>> outputs, alignments = rnn(keras.ops.ones((2, 7, 3)), keras.ops.ones((2, 5, 6)))
        >>> outputs.shape, alignments.shape
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
        step_shape = (inputs_shape[0], inputs_shape[-1])
        self.cell.build(step_shape, memory_shape=tuple(memory_shape))

    def call(self, inputs, memory, mask=None, memory_mask=None, initial_state=None, training=None):
        if initial_state is None:
            initial_state = self.cell.get_initial_state(batch_size=ops.shape(inputs)[0])
        run = self._run_by_hand if self.has_own_gradient(training) else self._run_cell
        outputs, alignments, states = run(
            inputs, memory, mask, memory_mask, _as_list(initial_state), training
        )
        returned = [outputs]
        if self.return_alignments:
            returned.append(alignments)
        if self.return_state:
            returned.append(states)
        return returned[0] if len(returned) == 1 else tuple(returned)

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
            and cell.activation is keras.activations.tanh
            and cell.recurrent_activation is keras.activations.sigmoid
            and not (training and (cell.dropout or cell.recurrent_dropout))
            and self.compute_dtype == cell.compute_dtype == attention.compute_dtype
        )

    def _run_by_hand(self, inputs, memory, mask, memory_mask, initial_state, training):
        """Outputs (B, T, units + m), alignments (B, T, S) and the states of `attention_scan`."""
        cell, attention = self.cell.cell, self.cell.attention
        keys, of_attention = _WEIGHTS_OF[type(attention)](
            attention, attention.project_memory(memory, memory_mask)
        )
        outputs, alignments, state = attention_scan(
            ops.cast(inputs, self.compute_dtype),
            ops.cast(memory, self.compute_dtype),
            keys,
            ops.cast(initial_state[0], self.compute_dtype),
            **cell.scan_weights(),
            **{
                name: weight if weight is None else ops.cast(weight, self.compute_dtype)
                for name, weight in of_attention.items()
            },
            reset_after=cell.reset_after,
            mask=mask,
            memory_mask=memory_mask,
        )
        return outputs, alignments, [state]

    def _run_cell(self, inputs, memory, mask, memory_mask, initial_state, training):
        """Outputs (B, T, units + m), alignments (B, T, S) and the states of any cell, by `scan`."""
        keys = self.cell.attention.project_memory(memory, memory_mask)

        def step(inputs_t, states):
            output, alignment, states = self.cell(
                inputs_t, states, memory, memory_mask=memory_mask, keys=keys, training=training
            )
            return (output, alignment), states

        batch, length = ops.shape(inputs)[:2]
        source_length = ops.shape(memory)[1]
        output_units = self.cell.cell.output_size + memory.shape[-1]
        at_rest = (
            ops.zeros((batch, output_units), dtype=self.compute_dtype),
            ops.zeros((batch, source_length), dtype=self.cell.attention.compute_dtype),
        )
        (outputs, alignments), states = scan(
            step, inputs, initial_state, mask=mask, initial_outputs=at_rest
        )
        alignments = ops.reshape(alignments, (batch, length, source_length))
        if mask is not None:
            alignments = masks.clear_hidden(alignments, ops.convert_to_tensor(mask))
        return outputs, alignments, states

    def compute_mask(self, inputs, mask=None):
        return mask

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


def _as_list(states) -> list:
    return list(states) if isinstance(states, list | tuple) else [states]


def _with_parts(config, custom_objects) -> dict:
    """The config with its cell and attention rebuilt."""
    parts = {
        name: keras.saving.deserialize_keras_object(config[name], custom_objects=custom_objects)
        for name in ("cell", "attention")
    }
    return {**config, **parts}
