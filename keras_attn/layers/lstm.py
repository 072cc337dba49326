"""The long short-term memory over a sequence."""

from keras_attn.checks import require_choice
from keras_attn.layers import cudnn
from keras_attn.layers.lstm_cell import LSTMCell
from keras_attn.layers.recurrent_layer import RecurrentLayer, of_cell
from keras_attn.ops.recurrent import PEEPHOLES, LSTMForm
from keras_attn.saved import registered


@registered
class LSTM(RecurrentLayer):
    """Long short-term memory over a sequence (Hochreiter and Schmidhuber 1997, Gers et al. 2000).

    The equations, weights and variants are those of `LSTMCell`. A drop-in for `keras.layers.LSTM`,
    but where a mask is given: a masked step leaves the states and the output as they were, from
    the initial state on. On a GPU, without peepholes and variant, it runs Keras' cuDNN kernel
    where that computes the same.

    Args:
        units: positive integer, the size of h and c.
        activation: of the candidate and the cell. Defaults to `"tanh"`.
        recurrent_activation: of the gates. Defaults to `"sigmoid"`.
        use_bias: whether there is a bias. Defaults to `True`.
        kernel_initializer: Defaults to `"glorot_uniform"`.
        recurrent_initializer: of `recurrent_kernel` and `gate_recurrent_kernel`. Defaults to
            `"orthogonal"`.
        bias_initializer: Defaults to `"zeros"`.
        unit_forget_bias: whether the bias of the forget gate, if there is one, starts at 1.
            Defaults to `True`.
        kernel_regularizer: Defaults to `None`, as the three below.
        recurrent_regularizer: of `recurrent_kernel` and `gate_recurrent_kernel`.
        bias_regularizer: of `bias`.
        activity_regularizer: of the output.
        kernel_constraint: Defaults to `None`, as the two below.
        recurrent_constraint: of `recurrent_kernel` and `gate_recurrent_kernel`.
        bias_constraint: of `bias`.
        dropout: fraction of the inputs to drop in training, one mask a sequence. Defaults to 0.
        recurrent_dropout: fraction of h to drop in its products. Defaults to 0.
        seed: of the dropout.
        return_sequences: return the outputs of all steps, not of the last. Defaults to `False`.
        return_state: return the last state too. Defaults to `False`.
        go_backwards: go from the last step to the first and return the steps in the order in
            which they were taken. Defaults to `False`.
        stateful: begin each batch with the states in which the last one ended. Defaults to
            `False`.
        unroll: write the steps into the graph one after another. Defaults to `False`.
        use_cudnn: `"auto"`, `True` or `False`. Defaults to `"auto"`.
        jit_compile: whether XLA compiles the loop: `"auto"`, in graphs whose shapes are known and
            where it pays, `True` or `False`. Defaults to `"auto"`.
        zero_output_for_mask: return zeros at the masked steps of the sequence. Defaults to
            `False`.
        peepholes: `None`, `"diagonal"` or `"full"`. Defaults to `None`.
        output_gate_sees: with peepholes, `"new"` or `"previous"`. Defaults to `"new"`.
        variant: `None`, `"NIG"`, `"NFG"`, `"NOG"`, `"NIAF"`, `"NOAF"`, `"CIFG"` or `"FGR"`.
            Defaults to `None`.
        peephole_initializer: Defaults to `"zeros"`.
        peephole_regularizer: Defaults to `None`.
        peephole_constraint: Defaults to `None`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: list of h and c, (batch, units); zeros if `None`. In the variant FGR
            [i, f, o], (batch, 3 * units), may follow.
        mask: (batch, time) boolean, True for the steps to take, or (1, time) for all sequences.
        training: whether to apply dropout. What the gradient needs is saved with it, and where a
            gradient tape is active.

    Returns:
        The output (batch, units), or (batch, time, units) with `return_sequences`; with
        `return_state` that and the last states.

    Raises:
        ValueError: as `LSTMCell`; inputs that are no sequences, a mask that is not boolean, an
            `initial_state` of another number or shape, `stateful` without a batch size, `unroll`
            without a length.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import LSTM
    >>> layer = LSTM(4, peepholes="diagonal", return_state=True)
    >>> output, hidden, cell = layer(np.ones((2, 5, 3)))
    >>> tuple(output.shape), tuple(cell.shape)
    ((2, 4), (2, 4))

    References:
        - [Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735)
        - [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302)
        - [Greff et al., 2015](https://arxiv.org/abs/1503.04069)
    """

    unit_forget_bias = of_cell("unit_forget_bias")
    peepholes = of_cell("peepholes")
    output_gate_sees = of_cell("output_gate_sees")
    variant = of_cell("variant")
    peephole_initializer = of_cell("peephole_initializer")
    peephole_regularizer = of_cell("peephole_regularizer")
    peephole_constraint = of_cell("peephole_constraint")

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
        use_cudnn="auto",
        jit_compile="auto",
        zero_output_for_mask=False,
        peepholes=None,
        output_gate_sees="new",
        variant=None,
        peephole_initializer="zeros",
        peephole_regularizer=None,
        peephole_constraint=None,
        **kwargs,
    ):
        cell = LSTMCell(
            units,
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
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            peepholes=peepholes,
            output_gate_sees=output_gate_sees,
            variant=variant,
            peephole_initializer=peephole_initializer,
            peephole_regularizer=peephole_regularizer,
            peephole_constraint=peephole_constraint,
            implementation=kwargs.pop("implementation", 2),
            dtype=kwargs.get("dtype"),
            trainable=kwargs.get("trainable", True),
            name="lstm_cell",
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

    def cudnn_is_usable(self, mask) -> bool:
        plain = self.cell.form == LSTMForm()
        return plain and cudnn.is_usable(self.cell, self.unroll, mask)

    def cudnn_loop(self, sequences, initial_state):
        return cudnn.run_lstm(self, sequences, initial_state)


@registered
class PeepholeLSTM(LSTM):
    """The LSTM with peepholes over a sequence (Gers and Schmidhuber 2000).

    `LSTM`, whose arguments it takes, with `peepholes="diagonal"` by default and no layer without
    peepholes. A trained `LSTM`, Keras' or ours, goes on as a `PeepholeLSTM` whose peepholes start
    at 0: `layer.set_weights([*lstm.get_weights(), np.zeros((3, units))])`, where a full peephole
    kernel has the shape (units, 3 * units).

    Args:
        units: positive integer, the size of h and c.
        peepholes: `"diagonal"` or `"full"`. Defaults to `"diagonal"`.
        **kwargs: the other arguments of `LSTM`.

    Raises:
        ValueError: as `LSTM`, and for `peepholes=None`.

    Example:

    >>> import numpy as np
    >>> from keras_attn.layers import PeepholeLSTM
    >>> tuple(PeepholeLSTM(4, output_gate_sees="previous")(np.ones((2, 5, 3))).shape)
    (2, 4)

    Reference:
        [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302)
    """

    def __init__(self, units, *, peepholes="diagonal", **kwargs):
        require_choice("peepholes", peepholes, PEEPHOLES[1:])
        super().__init__(units, peepholes=peepholes, **kwargs)
