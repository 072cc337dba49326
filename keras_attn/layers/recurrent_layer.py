"""What the recurrent layers have in common: a Keras RNN with the loop of `ops.scan`."""

import keras
from keras import ops

from keras_attn._upstream import a_tape_may_record, own_precision
from keras_attn.layers.recurrent_checks import (
    flat_shapes,
    has_default_activations,
    require_features,
    require_sequences,
    require_states,
)
from keras_attn.layers.recurrent_dropout import drop_inputs
from keras_attn.layers.recurrent_weights import shapes_of
from keras_attn.layers.setting_checks import require_choice
from keras_attn.ops import masks
from keras_attn.ops.compilation import require_jit_compile
from keras_attn.ops.scan import scan
from keras_attn.protocols import ScannedCell, SupportsMasksByBlock


def of_cell(name: str) -> property:
    """A property of a layer that reads the attribute of its cell."""
    return property(lambda layer: getattr(layer.cell, name), doc=f"`{name}` of the cell.")


class RecurrentLayer(keras.layers.RNN):
    """A `keras.layers.RNN` over a cell that projects its inputs for all steps at once.

    The cell is a Keras cell and a `keras_attn.protocols.ScannedCell`.

    A subclass has `cudnn_is_usable(mask)`, whether there is a GPU and cuDNN computes exactly what
    the layer computes, and `cudnn_loop(sequences, initial_state)`, which does `inner_loop` there.

    Where a mask is False the states and the output are those of the step before, the initial
    ones as long as no step was taken: the last output always is the last hidden state.
    `zero_output_for_mask` sets the masked steps of a returned sequence to 0, and nothing else.
    `go_backwards` reverses the mask that goes on with the sequence. Keras differs in all three.

    A mask that the sequences carry is used also beside an `initial_state`, where Keras loses it.
    Sequences of integers or booleans are numbers of the cell's compute dtype.
    """

    units = of_cell("units")
    activation = of_cell("activation")
    recurrent_activation = of_cell("recurrent_activation")
    use_bias = of_cell("use_bias")
    kernel_initializer = of_cell("kernel_initializer")
    recurrent_initializer = of_cell("recurrent_initializer")
    bias_initializer = of_cell("bias_initializer")
    kernel_regularizer = of_cell("kernel_regularizer")
    recurrent_regularizer = of_cell("recurrent_regularizer")
    bias_regularizer = of_cell("bias_regularizer")
    kernel_constraint = of_cell("kernel_constraint")
    recurrent_constraint = of_cell("recurrent_constraint")
    bias_constraint = of_cell("bias_constraint")
    dropout = of_cell("dropout")
    recurrent_dropout = of_cell("recurrent_dropout")

    def __init__(self, cell: ScannedCell, use_cudnn="auto", jit_compile="auto", **kwargs):
        super().__init__(cell, **kwargs)
        self.jit_compile = require_jit_compile(jit_compile)
        self.use_cudnn = require_choice("use_cudnn", use_cudnn, ("auto", True, False))
        if use_cudnn and self.cudnn_is_usable(mask=None):
            self.supports_jit = False  # XLA has no cuDNN kernels

    def build(self, sequences_shape, initial_state_shape=None):
        require_sequences(sequences_shape)
        if self.stateful and sequences_shape[0] is None:
            raise ValueError(
                "A stateful layer must know its batch size: give `batch_size` or `batch_shape` to "
                f"the Input. Received: sequences.shape={tuple(sequences_shape)}"
            )
        super().build(sequences_shape, initial_state_shape)

    def _require_sequences(self, shape):
        require_sequences(shape)
        require_features("sequences", shape, self.cell.kernel.shape[0] if self.built else None)

    def compute_output_shape(self, sequences_shape, initial_state_shape=None):
        self._require_sequences(sequences_shape)
        if self.unroll and sequences_shape[1] is None:
            raise ValueError(
                "A loop over an unknown number of steps cannot be unrolled: give the input a known "
                f"length or pass unroll=False. Received: sequences.shape={tuple(sequences_shape)}"
            )
        if self.stateful and self.states is not None:
            self._require_batch_of_states(sequences_shape[0])
        if initial_state_shape is not None:
            self._require_states(flat_shapes(initial_state_shape), sequences_shape)
        return super().compute_output_shape(sequences_shape)

    def compute_output_spec(self, sequences, initial_state=None, mask=None, training=False):
        masks.require_symbolic_step_mask(mask, sequences.shape)
        return super().compute_output_spec(sequences, initial_state=initial_state)

    def compute_mask(self, sequences, mask):
        """The mask of the outputs: that of the sequence, in the order of the outputs."""
        if mask is None or not self.return_sequences:
            mask = None
        elif isinstance(mask, list | tuple):
            mask = masks.require_boolean(mask)
        if mask is not None and self.go_backwards:
            mask = ops.flip(mask, axis=1)
        return [mask, *(None for _ in self.state_size)] if self.return_state else mask

    def call(self, sequences, initial_state=None, mask=None, training=False):
        self._require_sequences(sequences.shape)
        mask = masks.carried(sequences, mask)
        if mask is not None:
            mask = masks.require_step_mask(mask, *ops.shape(sequences)[:2])
        states = self._starting_states(sequences, initial_state)
        sequences = ops.cast(sequences, self.cell.compute_dtype)
        try:
            with own_precision(self.cell):
                last_output, outputs, states = self.inner_loop(sequences, states, mask, training)
        finally:
            self.cell.reset_dropout_mask()
            self.cell.reset_recurrent_dropout_mask()
        if self.stateful:
            for variable, state in zip(self.states, states, strict=True):
                variable.assign(ops.cast(state, variable.dtype))
        returned = [outputs if self.return_sequences else last_output]
        if self.return_state:
            returned += states
        returned = [ops.cast(each, self.compute_dtype) for each in returned]
        return tuple(returned) if self.return_state else returned[0]

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Run the cell over the sequence: `(last_output, outputs, states)`, as in Keras."""
        if self.use_cudnn and self.cudnn_is_usable(mask):
            (dropped,) = drop_inputs(self.cell, sequences, training)
            return self.cudnn_loop(dropped, initial_state)
        if self.use_cudnn is True:
            raise ValueError(
                "cuDNN cannot compute this layer here: it needs a GPU, the default activations, "
                "a bias, no mask, no unrolling, no recurrent dropout, no peepholes or variant and "
                "in a GRU `reset_after=True`; pass use_cudnn='auto'. Received: use_cudnn=True"
            )
        run = self._scan_by_hand if self.has_own_gradient(training) else self._scan
        outputs, states = run(sequences, initial_state, mask, training)
        if self.return_sequences:
            outputs = self._finish(outputs, mask)  # (B, T, units)
        return states[0], outputs, states

    def has_own_gradient(self, training: bool = False) -> bool:
        """Whether a call runs `ops.lstm_scan` or `ops.gru_scan`, whose gradient is ours.

        It does with the default activations, without unrolling, and without recurrent dropout or
        dropout by block where the call applies them. There the scan computes what the steps of the
        cell compute, in less time; the rest is run step by step and differentiated by TensorFlow.
        cuDNN, where it is used, comes before both.
        """
        cell = self.cell
        one_mask_a_block = cell.dropout and isinstance(cell, SupportsMasksByBlock)
        return (
            has_default_activations(cell)
            and not self.unroll
            and not (training and (cell.recurrent_dropout or one_mask_a_block))
        )

    def _scan_by_hand(self, sequences, initial_state, mask, training):
        """Outputs (B, T, units) and the last states."""
        (dropped,) = drop_inputs(self.cell, sequences, training)
        return self.cell.scan(
            dropped,
            initial_state,
            mask,
            self.go_backwards,
            jit_compile=self.jit_compile,
            saves=bool(training) or a_tape_may_record(),
        )

    def _scan(self, sequences, initial_state, mask, training):
        """Outputs (B, T, units), or none if none are returned, and the last states."""
        projected = self.cell.project(sequences, training)  # (B, T, blocks * units)
        cell_step = self.cell.step_function(initial_state, training)

        def step(projected, states):
            output, states = cell_step(projected, states)
            return (output if self.return_sequences else ()), states

        return scan(
            step,
            projected,
            initial_state,
            mask=mask,
            reverse=self.go_backwards,
            initial_outputs=initial_state[0] if self.return_sequences else (),
            unroll=self.unroll,
        )

    def _finish(self, outputs, mask):
        """Zero the masked steps if asked to, and put the steps in the order they were taken."""
        if mask is not None and self.zero_output_for_mask:
            mask = ops.expand_dims(mask, -1)
            outputs = ops.where(mask, outputs, ops.zeros_like(outputs))
        return ops.flip(outputs, axis=1) if self.go_backwards else outputs

    def set_weights(self, weights):
        if self.built:
            self.cell.require_own_form(shapes_of(weights))
        super().set_weights(weights)

    def _require_batch_of_states(self, batch_size):
        expected = self.states[0].shape[0]
        if batch_size not in (None, expected):
            raise ValueError(
                f"A stateful layer keeps the batch size with which it was built, {expected}. "
                f"Received: sequences of batch size {batch_size}"
            )

    def _starting_states(self, sequences, initial_state) -> list:
        if self.stateful:
            self._require_batch_of_states(sequences.shape[0])
        given = self.states if initial_state is None and self.stateful else initial_state
        given = [] if given is None else _as_list(given)
        if initial_state is not None:
            self._require_states([state.shape for state in given], sequences.shape)
        left_out = self.get_initial_state(ops.shape(sequences)[0])[len(given) :]
        dtype = self.cell.compute_dtype
        return [ops.convert_to_tensor(state, dtype=dtype) for state in [*given, *left_out]]

    def _require_states(self, shapes, sequences_shape):
        require_states(shapes, self.state_size, sequences_shape[0], self.cell.required_states)

    def get_config(self):
        config = super().get_config()
        del config["cell"]
        return {
            **self.cell.get_config(),
            **config,
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
            "use_cudnn": self.use_cudnn,
            "jit_compile": self.jit_compile,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _as_list(states) -> list:
    return list(states) if keras.tree.is_nested(states) else [states]
