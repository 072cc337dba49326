"""One step of the long short-term memory, with peepholes and in the variants of Greff et al."""

import functools

import keras
from keras import ops

from keras_attn.checks import require_choice, require_rate, require_size
from keras_attn.layers.recurrent_checks import in_precision_of
from keras_attn.layers.recurrent_dropout import project_dropped, recurrent_masks
from keras_attn.layers.recurrent_initializer import at_least_float32
from keras_attn.layers.recurrent_weights import (
    lstm_forms,
    require_own_form,
    shapes_of,
    stored_shapes,
)
from keras_attn.ops.compilation import LARGEST_UNITS, compiles
from keras_attn.ops.lstm_scan import lstm_scan
from keras_attn.ops.recurrent import LSTM_BLOCKS, PEEPHOLES, LSTMForm, lstm_step
from keras_attn.ops.scan import scan
from keras_attn.protocols import SupportsMasksByBlock


@keras.saving.register_keras_serializable(package="keras_attn")
class LSTMCell(keras.layers.LSTMCell):
    """One step of the long short-term memory (Hochreiter and Schmidhuber 1997, Gers et al. 2000).

        i = sigmoid(x W_i + h U_i + c P_i + b_i)
        f = sigmoid(x W_f + h U_f + c P_f + b_f)
        c' = f * c + i * tanh(x W_c + h U_c + b_c)
        o = sigmoid(x W_o + h U_o + c' P_o + b_o)
        h' = o * tanh(c')

    Without peepholes (P = 0) that is `keras.layers.LSTMCell`, and the weights are interchangeable
    by `set_weights`: `kernel` (features, 4 * units), `recurrent_kernel` (units, 4 * units), `bias`
    (4 * units,), blocks i, f, c, o. Then follow `peephole_kernel`, blocks i, f, o, (3, units) if
    diagonal (P is a product by unit) or (units, 3 * units) if full, and in the variant FGR
    `gate_recurrent_kernel` (3 * units, 3 * units). A variant without a gate has no blocks for it.

    Args:
        units: positive integer, the size of h and c.
        activation: the tanh of the equations. Defaults to `"tanh"`.
        recurrent_activation: of the gates. Defaults to `"sigmoid"`.
        use_bias: whether there is a bias. Defaults to `True`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: of `recurrent_kernel` and `gate_recurrent_kernel`. Defaults to
            `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        unit_forget_bias: whether the bias of the forget gate, if there is one, starts at 1.
            Defaults to `True`.
        kernel_regularizer: Defaults to `None`, as the two below.
        recurrent_regularizer: of `recurrent_kernel` and `gate_recurrent_kernel`.
        bias_regularizer: of `bias`.
        kernel_constraint: Defaults to `None`, as the two below.
        recurrent_constraint: of `recurrent_kernel` and `gate_recurrent_kernel`.
        bias_constraint: of `bias`.
        dropout: fraction of the inputs to drop in training, one mask a sequence. Defaults to 0.
        recurrent_dropout: fraction of h to drop in its products. Defaults to 0.
        seed: of the dropout.
        peepholes: what the gates see of the cell: `None`, nothing; `"diagonal"`, each unit its own
            cell; `"full"`, every unit all cells. Defaults to `None`.
        output_gate_sees: with peepholes, the cell that the output gate sees: `"new"` as above, or
            `"previous"`, c as the other gates. Defaults to `"new"`.
        variant: of Greff et al. (2015). No gate, 1 in its place: `"NIG"` input, `"NFG"` forget,
            `"NOG"` output; `"CIFG"`: f = 1 - i. The identity for a tanh: `"NIAF"` the first,
            `"NOAF"` the second. `"FGR"`: [i, f, o] of the step before, a third state of
            (batch, 3 * units), enter the gates through `gate_recurrent_kernel`. Defaults to
            `None`.
        peephole_initializer: Defaults to `"zeros"`, at which a cell starts as if it had none.
        peephole_regularizer: Defaults to `None`.
        peephole_constraint: Defaults to `None`.

    Call arguments:
        inputs: (batch, features).
        states: list of h and c, (batch, units), and in the variant FGR [i, f, o].
        training: whether to apply dropout.

    Returns:
        `(output, states)`: the new h, and the new states in a list.

    Raises:
        ValueError: `units` that is no positive integer, a dropout rate outside [0, 1), an unknown
            `peepholes`, `output_gate_sees` or `variant`, and `output_gate_sees="previous"` without
            peepholes or without an output gate.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import LSTMCell
    >>> cell = LSTMCell(4, variant="CIFG")
    >>> output, states = cell(np.ones((2, 3)), cell.get_initial_state(2))
    >>> tuple(output.shape), len(states), tuple(cell.kernel.shape)
    ((2, 4), 2, (3, 12))

    References:
        - [Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735)
        - [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302)
        - [Greff et al., 2015](https://arxiv.org/abs/1503.04069)
    """

    required_states = 2

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias=True,
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        peepholes=None,
        output_gate_sees="new",
        variant=None,
        peephole_initializer="zeros",
        peephole_regularizer=None,
        peephole_constraint=None,
        **kwargs,
    ):
        form = _checked_form(peepholes, output_gate_sees, variant)
        super().__init__(
            require_size("units", units),
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=require_rate("dropout", dropout),
            recurrent_dropout=require_rate("recurrent_dropout", recurrent_dropout),
            seed=seed,
            **kwargs,
        )
        self.peepholes, self.output_gate_sees, self.variant = form
        self.peephole_initializer = keras.initializers.get(peephole_initializer)
        self.peephole_regularizer = keras.regularizers.get(peephole_regularizer)
        self.peephole_constraint = keras.constraints.get(peephole_constraint)
        if isinstance(self, SupportsMasksByBlock):
            self.dropout_mask_count = len(self.form.blocks)
        if variant == "FGR":
            self.state_size = [self.units, self.units, 3 * self.units]

    @property
    def form(self) -> LSTMForm:
        """Which LSTM it is."""
        return LSTMForm(self.peepholes, self.output_gate_sees, self.variant)

    def build(self, input_shape):
        units, blocks = self.units, len(self.form.blocks)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], blocks * units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.recurrent_kernel = self._add_recurrent_weight(
            "recurrent_kernel", (units, blocks * units)
        )
        self.bias = self._add_bias() if self.use_bias else None
        self.peephole_kernel = self._add_peephole_kernel() if self.peepholes else None
        self.gate_recurrent_kernel = None
        if self.variant == "FGR":
            self.gate_recurrent_kernel = self._add_recurrent_weight(
                "gate_recurrent_kernel", (3 * units, 3 * units)
            )

    def _add_recurrent_weight(self, name, shape):
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=at_least_float32(self.recurrent_initializer),
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )

    def _add_bias(self):
        has_forget_gate = "forget" in self.form.blocks
        with_ones = self.unit_forget_bias and has_forget_gate
        return self.add_weight(
            name="bias",
            shape=(len(self.form.blocks) * self.units,),
            initializer=self._forget_bias_initializer if with_ones else self.bias_initializer,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def _forget_bias_initializer(self, shape, dtype=None):
        before = self.form.blocks.index("forget") * self.units
        after = shape[0] - before - self.units
        parts = [ops.ones((self.units,), dtype=dtype)]
        if before:
            parts.insert(0, self.bias_initializer((before,), dtype=dtype))
        if after:
            parts.append(self.bias_initializer((after,), dtype=dtype))
        return ops.concatenate(parts)

    def _add_peephole_kernel(self):
        gates = len(self.form.gates)
        diagonal = self.peepholes == "diagonal"
        return self.add_weight(
            name="peephole_kernel",
            shape=(gates, self.units) if diagonal else (self.units, gates * self.units),
            initializer=self.peephole_initializer,
            regularizer=self.peephole_regularizer,
            constraint=self.peephole_constraint,
        )

    def project(self, inputs, training=False):
        """The part of the gates that comes from the inputs: (B, [T,] D) to blocks * units."""
        return project_dropped(self, inputs, self.bias, training)

    def step_function(self, states, training=False):
        """The function `(projected, states) -> (output, states)` of this cell's weights.

        The states given are those before the first step.
        """
        weights = (self.recurrent_kernel, self.peephole_kernel, self.gate_recurrent_kernel)
        names = ("recurrent_kernel", "peephole_kernel", "gate_recurrent_kernel")
        step = functools.partial(
            lstm_step,
            form=self.form,
            activation=self.activation,
            recurrent_activation=self.recurrent_activation,
            dropout_masks=recurrent_masks(self, states[0], training),
            **{
                name: ops.convert_to_tensor(weight)
                for name, weight in zip(names, weights, strict=True)
                if weight is not None
            },
        )

        def step_states(projected, states):
            states = step(projected, states)
            return states[0], states

        return step_states

    def scan(self, inputs, states, mask=None, reverse=False, jit_compile="auto", saves=True):
        """All steps of inputs (B, T, D): `ops.lstm_scan` with this cell's weights.

        Large cells go through their own steps where neither a gradient nor XLA is at work: the
        scan brings the blocks of the kernels into another order first, which costs more than it
        gains there, but with full peepholes.
        """
        large = self.units > LARGEST_UNITS and self.peepholes != "full"
        if large and not saves and not compiles(jit_compile, inputs, self.units):
            return self._scan_steps(inputs, states, mask, reverse)
        return lstm_scan(
            inputs,
            states,
            form=self.form,
            mask=mask,
            reverse=reverse,
            jit_compile=jit_compile,
            saves=saves,
            **self.scan_weights(),
        )

    def _scan_steps(self, inputs, states, mask, reverse):
        cell_step = self.step_function(states)

        def step(inputs, states):
            return cell_step(self.project(inputs), states)

        return scan(step, inputs, states, mask, reverse, initial_outputs=states[0])

    def scan_weights(self) -> dict:
        """The weights in the compute dtype, None for those that the cell lacks."""
        names = (
            "kernel",
            "recurrent_kernel",
            "bias",
            "peephole_kernel",
            "gate_recurrent_kernel",
        )
        weights = {name: getattr(self, name) for name in names}
        return {
            name: weight if weight is None else ops.cast(weight, self.compute_dtype)
            for name, weight in weights.items()
        }

    def call(self, inputs, states, training=False):
        inputs, states = in_precision_of(self, inputs, states)
        step = self.step_function(states, training)
        return step(self.project(inputs, training), states)

    def set_weights(self, weights):
        if self.built:
            self.require_own_form(shapes_of(weights))
        super().set_weights(weights)

    def load_own_variables(self, store):
        self.require_own_form(stored_shapes(store))
        super().load_own_variables(store)

    def require_own_form(self, shapes):
        """Raise `ValueError` if these are the shapes of weights of another form, which it names."""
        require_own_form(self, shapes, lstm_forms(self.kernel.shape[0], self.units))

    def get_config(self):
        return {
            **super().get_config(),
            "peepholes": self.peepholes,
            "output_gate_sees": self.output_gate_sees,
            "variant": self.variant,
            "peephole_initializer": keras.initializers.serialize(self.peephole_initializer),
            "peephole_regularizer": keras.regularizers.serialize(self.peephole_regularizer),
            "peephole_constraint": keras.constraints.serialize(self.peephole_constraint),
        }


@keras.saving.register_keras_serializable(package="keras_attn")
class PeepholeLSTMCell(LSTMCell):
    """One step of the LSTM with peepholes (Gers and Schmidhuber 2000).

    `LSTMCell`, whose arguments it takes, with `peepholes="diagonal"` by default and no cell
    without peepholes. It computes what an `LSTMCell` does with that cell's weights and peepholes of
    0: `cell.set_weights([*lstm_cell.get_weights(), np.zeros((3, units))])`.

    Args:
        units: positive integer, the size of h and c.
        peepholes: `"diagonal"` or `"full"`. Defaults to `"diagonal"`.
        **kwargs: the other arguments of `LSTMCell`.

    Raises:
        ValueError: as `LSTMCell`, and for `peepholes=None`.

    Example:

    >>> from keras_attn.layers import PeepholeLSTMCell
    >>> cell = PeepholeLSTMCell(4)
    >>> cell.build((None, 3))
    >>> tuple(cell.peephole_kernel.shape)
    (3, 4)

    Reference:
        [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302)
    """

    def __init__(self, units, *, peepholes="diagonal", **kwargs):
        require_choice("peepholes", peepholes, PEEPHOLES[1:])
        super().__init__(units, peepholes=peepholes, **kwargs)


def _checked_form(peepholes, output_gate_sees, variant) -> LSTMForm:
    require_choice("peepholes", peepholes, PEEPHOLES)
    require_choice("output_gate_sees", output_gate_sees, ("new", "previous"))
    require_choice("variant", variant, tuple(LSTM_BLOCKS))
    form = LSTMForm(peepholes, output_gate_sees, variant)
    if output_gate_sees == "previous" and peepholes is None:
        raise ValueError(
            "An output gate sees a cell only through peepholes: pass peepholes='diagonal' or "
            "'full', or leave out `output_gate_sees`. Received: output_gate_sees='previous' and "
            "peepholes=None"
        )
    if output_gate_sees == "previous" and "output" not in form.gates:
        raise ValueError(
            f"The variant {variant} has no output gate that could see a cell: leave out "
            f"`output_gate_sees`. Received: output_gate_sees='previous' and variant={variant!r}"
        )
    return form
