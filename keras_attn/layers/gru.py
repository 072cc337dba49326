"""The gated recurrent unit, one step and a whole sequence."""

import functools

import keras

from keras_attn.checks import require_rate, require_size
from keras_attn.layers import cudnn
from keras_attn.layers.recurrent_checks import in_precision_of
from keras_attn.layers.recurrent_dropout import project_dropped, recurrent_masks
from keras_attn.layers.recurrent_initializer import at_least_float32
from keras_attn.layers.recurrent_layer import RecurrentLayer
from keras_attn.layers.recurrent_weights import (
    gru_forms,
    require_own_form,
    shapes_of,
    stored_shapes,
)
from keras_attn.ops.gru_scan import gru_scan
from keras_attn.ops.recurrent import gru_step, gru_step_reset_after
from keras_attn.saved import registered


@registered
class GRUCell(keras.layers.GRUCell):
    """One step of the gated recurrent unit (Cho et al. 2014).

        z = sigmoid(x W_z + h U_z + b_z)
        r = sigmoid(x W_r + h U_r + b_r)
        h' = z * h + (1 - z) * tanh(x W_h + (r * h) U_h + b_h)

    With `reset_after=True`, the form of cuDNN and Keras' default, the last line reads
    `h' = z * h + (1 - z) * tanh(x W_h + b_h + r * (h U_h + c_h))`, and the recurrent products
    have a bias of their own.

    The weights are those of `keras.layers.GRUCell` with the same `reset_after`, interchangeable
    by `set_weights`: `kernel` (features, 3 * units), `recurrent_kernel` (units, 3 * units), `bias`
    (3 * units,) or, with `reset_after`, (2, 3 * units) for inputs and states; blocks z, r, h.
    Without biases the shapes do not tell the two forms apart: `from_config` of the trained cell's
    config does.

    Args:
        units: positive integer, the size of the state.
        activation: of the candidate. Defaults to `"tanh"`.
        recurrent_activation: of the gates. Defaults to `"sigmoid"`.
        use_bias: whether there are biases. Defaults to `True`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: Defaults to `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        kernel_regularizer: Defaults to `None`, as the two below.
        recurrent_regularizer: of `recurrent_kernel`.
        bias_regularizer: of `bias`.
        kernel_constraint: Defaults to `None`, as the two below.
        recurrent_constraint: of `recurrent_kernel`.
        bias_constraint: of `bias`.
        dropout: fraction of the inputs to drop in training, one mask a sequence. Defaults to 0.
        recurrent_dropout: fraction of the state to drop in its products. Defaults to 0.
        reset_after: whether the reset gate follows the product. Defaults to `False`; Keras'
            default is `True`.
        seed: of the dropout.

    Call arguments:
        inputs: (batch, features).
        states: list of the state before, (batch, units).
        training: whether to apply dropout.

    Returns:
        `(output, [state])`, both the new h, (batch, units).

    Raises:
        ValueError: `units` that is no positive integer, a dropout rate outside [0, 1).

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import GRUCell
    >>> cell = GRUCell(4)
    >>> output, states = cell(np.ones((2, 3)), cell.get_initial_state(2))
    >>> tuple(output.shape)
    (2, 4)

    Reference:
        [Cho et al., 2014](https://arxiv.org/abs/1406.1078)
    """

    required_states = 1

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        reset_after=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            require_size("units", units),
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=require_rate("dropout", dropout),
            recurrent_dropout=require_rate("recurrent_dropout", recurrent_dropout),
            reset_after=reset_after,
            seed=seed,
            **kwargs,
        )

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], 3 * self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.units, 3 * self.units),
            initializer=at_least_float32(self.recurrent_initializer),
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(2, 3 * self.units) if self.reset_after else (3 * self.units,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def project(self, inputs, training=False):
        """The part of the gates that comes from the inputs: (B, [T,] D) -> (B, [T,] 3 * units)."""
        bias = self.bias[0] if self.use_bias and self.reset_after else self.bias
        return project_dropped(self, inputs, bias, training)

    def step_function(self, states, training=False):
        """The function `(projected, states) -> (output, states)` of this cell's weights.

        The states given are those before the first step.
        """
        form = {
            "recurrent_kernel": keras.ops.convert_to_tensor(self.recurrent_kernel),
            "activation": self.activation,
            "recurrent_activation": self.recurrent_activation,
            "dropout_masks": recurrent_masks(self, states[0], training),
        }
        if self.reset_after:
            recurrent_bias = self.bias[1] if self.use_bias else None
            step = functools.partial(gru_step_reset_after, recurrent_bias=recurrent_bias, **form)
        else:
            step = functools.partial(gru_step, **form)

        def step_states(projected, states):
            hidden = step(projected, states[0])
            return hidden, [hidden]

        return step_states

    def scan(self, inputs, states, mask=None, reverse=False, jit_compile="auto", saves=True):
        """All steps of inputs (B, T, D): `ops.gru_scan` with this cell's weights."""
        outputs, state = gru_scan(
            inputs,
            states[0],
            reset_after=self.reset_after,
            mask=mask,
            reverse=reverse,
            jit_compile=jit_compile,
            saves=saves,
            **self.scan_weights(),
        )
        return outputs, [state]

    def scan_weights(self) -> dict:
        """The weights in the compute dtype, the bias in its parts; None for what there is not."""
        both = self.use_bias and self.reset_after
        weights = {
            "kernel": self.kernel,
            "recurrent_kernel": self.recurrent_kernel,
            "bias": self.bias[0] if both else self.bias,
            "recurrent_bias": self.bias[1] if both else None,
        }
        return {
            name: weight if weight is None else keras.ops.cast(weight, self.compute_dtype)
            for name, weight in weights.items()
        }

    def call(self, inputs, states, training=False):
        nested = keras.tree.is_nested(states)
        inputs, states = in_precision_of(self, inputs, states if nested else [states])
        step = self.step_function(states, training)
        hidden, new_states = step(self.project(inputs, training), states)
        return hidden, new_states if nested else hidden

    def set_weights(self, weights):
        if self.built:
            self.require_own_form(shapes_of(weights))
        super().set_weights(weights)

    def load_own_variables(self, store):
        self.require_own_form(stored_shapes(store))
        super().load_own_variables(store)

    def require_own_form(self, shapes):
        """Raise `ValueError` if these are the shapes of weights of another form, which it names."""
        require_own_form(self, shapes, gru_forms(self.kernel.shape[0], self.units))


@registered
class GRU(RecurrentLayer):
    """Gated recurrent unit (Cho et al. 2014) over a sequence.

    The equations and weights are those of `GRUCell`. A drop-in for `keras.layers.GRU`, but for the
    default of `reset_after`, which `GRU.from_config(keras_gru.get_config())` takes from Keras, and
    where a mask is given: a masked step leaves the state and the output as they were, from the
    initial state on. On a GPU and with `reset_after=True` it runs Keras' cuDNN kernel where that
    computes the same.

    Args:
        units: positive integer, the size of the state.
        activation: of the candidate. Defaults to `"tanh"`.
        recurrent_activation: of the gates. Defaults to `"sigmoid"`.
        use_bias: whether there are biases. Defaults to `True`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: Defaults to `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        kernel_regularizer: Defaults to `None`, as the three below.
        recurrent_regularizer: of `recurrent_kernel`.
        bias_regularizer: of `bias`.
        activity_regularizer: of the output.
        kernel_constraint: Defaults to `None`, as the two below.
        recurrent_constraint: of `recurrent_kernel`.
        bias_constraint: of `bias`.
        dropout: fraction of the inputs to drop in training, one mask a sequence. Defaults to 0.
        recurrent_dropout: fraction of the state to drop in its products. Defaults to 0.
        seed: of the dropout.
        return_sequences: return the outputs of all steps, not of the last. Defaults to `False`.
        return_state: return the last state too. Defaults to `False`.
        go_backwards: go from the last step to the first and return the steps in the order in
            which they were taken. Defaults to `False`.
        stateful: begin each batch with the states in which the last one ended. Defaults to
            `False`.
        unroll: write the steps into the graph one after another. Defaults to `False`.
        reset_after: whether the reset gate follows the product. Defaults to `False`; Keras'
            default is `True`.
        use_cudnn: `"auto"`, `True` or `False`. Defaults to `"auto"`.
        jit_compile: whether XLA compiles the loop: `"auto"`, in graphs whose shapes are known and
            where it pays, `True` or `False`. Defaults to `"auto"`.
        zero_output_for_mask: return zeros at the masked steps of the sequence. Defaults to
            `False`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: list of one state (batch, units), or that state; zeros if `None`.
        mask: (batch, time) boolean, True for the steps to take, or (1, time) for all sequences.
        training: whether to apply dropout. What the gradient needs is saved with it, and where a
            gradient tape is active.

    Returns:
        The output (batch, units), or (batch, time, units) with `return_sequences`; with
        `return_state` that and the last state (batch, units).

    Raises:
        ValueError: `units` that is no positive integer, a dropout rate outside [0, 1), inputs that
            are no sequences, a mask that is not boolean, an `initial_state` of another number or
            shape, `stateful` without a batch size, `unroll` without a length.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import GRU
    >>> tuple(GRU(4, return_sequences=True)(np.ones((2, 5, 3))).shape)
    (2, 5, 4)

    Reference:
        [Cho et al., 2014](https://arxiv.org/abs/1406.1078)
    """

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        reset_after=False,
        use_cudnn="auto",
        jit_compile="auto",
        zero_output_for_mask=False,
        **kwargs,
    ):
        cell = GRUCell(
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            reset_after=reset_after,
            seed=seed,
            implementation=kwargs.pop("implementation", 2),
            dtype=kwargs.get("dtype"),
            trainable=kwargs.get("trainable", True),
            name="gru_cell",
        )
        super().__init__(
            cell,
            activity_regularizer=activity_regularizer,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            use_cudnn=use_cudnn,
            jit_compile=jit_compile,
            zero_output_for_mask=zero_output_for_mask,
            **kwargs,
        )

    @property
    def reset_after(self):
        """`reset_after` of the cell."""
        return self.cell.reset_after

    def cudnn_is_usable(self, mask) -> bool:
        return cudnn.is_usable(self.cell, self.unroll, mask, reset_after=self.reset_after)

    def cudnn_loop(self, sequences, initial_state):
        return cudnn.run_gru(self, sequences, initial_state)
