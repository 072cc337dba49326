"""One step of the gated recurrent cells, and the projection of their inputs.

The projection does not depend on the state, so it is done for a whole sequence at once; the step
takes one moment of what it returns. All functions are pure.
"""

from typing import NamedTuple

from keras import ops

LSTM_BLOCKS = {
    None: ("input", "forget", "candidate", "output"),
    "NIG": ("forget", "candidate", "output"),
    "NFG": ("input", "candidate", "output"),
    "NOG": ("input", "forget", "candidate"),
    "NIAF": ("input", "forget", "candidate", "output"),
    "NOAF": ("input", "forget", "candidate", "output"),
    "CIFG": ("input", "candidate", "output"),
    "FGR": ("input", "forget", "candidate", "output"),
}
"""The blocks of the kernels of an LSTM in order, by variant of Greff et al. (2015)."""

PEEPHOLES = (None, "diagonal", "full")


def project(inputs, kernel, bias=None):
    """Project the inputs into the blocks of a cell, all moments at once: `x W + b`.

    Args:
        inputs: (..., D), one moment (B, D) or a sequence (B, T, D).
        kernel: (D, blocks * units).
        bias: (blocks * units,) or None.

    Returns:
        (..., blocks * units).

    Example:
        >>> from keras import ops
        >>> from keras_attn.ops import project
        >>> tuple(project(ops.ones((2, 5, 3)), ops.ones((3, 8)), ops.zeros(8)).shape)
        (2, 5, 8)
    """
    projected = ops.matmul(inputs, kernel)
    return projected if bias is None else projected + bias


def project_blocks(block_inputs, kernel, bias=None):
    """`project` with inputs of its own for each block, as dropout masks by block make them.

    Args:
        block_inputs: list of (..., D), one for each block of the kernel.
        kernel: (D, blocks * units).
        bias: (blocks * units,) or None.

    Returns:
        (..., blocks * units).
    """
    kernels = ops.split(kernel, len(block_inputs), axis=-1)
    pairs = zip(block_inputs, kernels, strict=True)
    projected = ops.concatenate([ops.matmul(x, block) for x, block in pairs], axis=-1)
    return projected if bias is None else projected + bias


class LSTMForm(NamedTuple):
    """Which long short-term memory it is.

    Attributes:
        peepholes: what the gates see of the cell: `None`, nothing; `"diagonal"`, each unit its
            own cell; `"full"`, every unit all cells.
        output_gate_sees: the cell that the output gate sees, `"new"` or `"previous"`.
        variant: of Greff et al. (2015), or `None`. No gate or activation: `"NIG"` input gate,
            `"NFG"` forget gate, `"NOG"` output gate, `"NIAF"` input activation, `"NOAF"` output
            activation. `"CIFG"`: the forget gate is 1 - input gate. `"FGR"`: the gates also see
            all gates of the step before.

    Example:
        >>> from keras_attn.ops import LSTMForm
        >>> LSTMForm(variant="CIFG").gates
        ('input', 'output')
    """

    peepholes: str | None = None
    output_gate_sees: str = "new"
    variant: str | None = None

    @property
    def blocks(self) -> tuple[str, ...]:
        """The blocks of the kernels, in order."""
        return LSTM_BLOCKS[self.variant]

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates that have weights, the blocks of the peephole kernel, in order."""
        return tuple(block for block in self.blocks if block != "candidate")


def lstm_step(
    projected,
    states,
    recurrent_kernel,
    peephole_kernel=None,
    gate_recurrent_kernel=None,
    *,
    form: LSTMForm,
    activation=ops.tanh,
    recurrent_activation=ops.sigmoid,
    dropout_masks=None,
):
    """One step of the long short-term memory (Hochreiter and Schmidhuber 1997, Gers et al. 2000).

        i = sigmoid(x_i + h U_i + c P_i)
        f = sigmoid(x_f + h U_f + c P_f)
        c' = f * c + i * tanh(x_c + h U_c)
        o = sigmoid(x_o + h U_o + c' P_o)
        h' = o * tanh(c')

    `c P` is the product by unit `P * c` with diagonal peepholes, of matrices with full ones, and
    0 without. The output gate sees c instead of c' where `output_gate_sees` is `"previous"`.
    A variant without a gate has 1 for it, but CIFG has f = 1 - i; without an activation, the
    identity for the first (NIAF) or second (NOAF) tanh. FGR adds `[i, f, o] G` of the step before
    to the three gates.

    Args:
        projected: (B, blocks * units), the blocks x_i, x_f, x_c, x_o, biases included; here and
            below without the blocks of gates that the variant lacks.
        states: h and c, (B, units); with FGR also [i, f, o] of the step before, (B, 3 * units).
        recurrent_kernel: (units, blocks * units), U_i, U_f, U_c, U_o.
        peephole_kernel: diagonal (gates, units), full (units, gates * units): P_i, P_f, P_o.
        gate_recurrent_kernel: (3 * units, 3 * units), G of FGR.
        form: which LSTM it is.
        activation: the tanh of the equations.
        recurrent_activation: of the gates.
        dropout_masks: None, or one of (B, units) for each block, factors of h in its product.

    Returns:
        The new states, in a list like `states`; the first is the output h'.

    Example:
        >>> from keras import ops
        >>> from keras_attn.ops import LSTMForm, lstm_step
        >>> states = [ops.zeros((2, 4)), ops.zeros((2, 4))]
        >>> hidden, cell = lstm_step(ops.ones((2, 16)), states, ops.ones((4, 16)), form=LSTMForm())
        >>> round(float(cell[0, 0]), 4)  # sigmoid(1) tanh(1)
        0.5568

    References:
        - [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302), peepholes
        - [Greff et al., 2015](https://arxiv.org/abs/1503.04069), the variants
    """
    hidden, cell = states[:2]
    summed = projected + _recurrent_products(hidden, recurrent_kernel, dropout_masks)
    parts = ops.split(summed, len(form.blocks), axis=-1)  # (B, units) each
    sums = dict(zip(form.blocks, parts, strict=True))
    if form.variant == "FGR":
        history = ops.split(ops.matmul(states[2], gate_recurrent_kernel), 3, axis=-1)
        sums |= {gate: sums[gate] + g for gate, g in zip(form.gates, history, strict=True)}
    late = form.gates[-1:] if form.gates[-1] == "output" and form.output_gate_sees == "new" else ()
    early = form.gates[: len(form.gates) - len(late)]

    def open_gates(names, seen_cell):
        seen = _peephole_terms(seen_cell, peephole_kernel, form, names)
        return {name: recurrent_activation(sums[name] + seen[name]) for name in names}

    gates = open_gates(early, cell)
    i = gates.get("input", 1)
    f = 1 - i if form.variant == "CIFG" else gates.get("forget", 1)
    candidate = sums["candidate"] if form.variant == "NIAF" else activation(sums["candidate"])
    cell = f * cell + i * candidate
    gates |= open_gates(late, cell)
    shown = cell if form.variant == "NOAF" else activation(cell)
    hidden = gates.get("output", 1) * shown
    if form.variant != "FGR":
        return [hidden, cell]
    return [hidden, cell, ops.concatenate([gates[gate] for gate in form.gates], axis=-1)]


def _peephole_terms(cell, peephole_kernel, form: LSTMForm, names) -> dict:
    """What the gates `names`, neighbours in the kernel, see of the cell: (B, units) each."""
    if form.peepholes is None or not names:
        return dict.fromkeys(names, 0)
    first = form.gates.index(names[0])
    if form.peepholes == "diagonal":
        terms = [cell * peephole_kernel[first + n] for n in range(len(names))]
    else:
        units = cell.shape[-1]
        columns = peephole_kernel[:, first * units : (first + len(names)) * units]
        terms = ops.split(ops.matmul(cell, columns), len(names), axis=-1)
    return dict(zip(names, terms, strict=True))


def gru_step(
    projected,
    hidden,
    recurrent_kernel,
    *,
    activation=ops.tanh,
    recurrent_activation=ops.sigmoid,
    dropout_masks=None,
):
    """One step of the gated recurrent unit, the reset gate before the product (Cho et al. 2014).

        z = sigmoid(x_z + h U_z)
        r = sigmoid(x_r + h U_r)
        h' = z * h + (1 - z) * tanh(x_h + (r * h) U_h)

    Args:
        projected: (B, 3 * units), the blocks x_z, x_r, x_h, biases included.
        hidden: (B, units), the h of the step before.
        recurrent_kernel: (units, 3 * units), the blocks U_z, U_r, U_h.
        activation: of the candidate.
        recurrent_activation: of the gates.
        dropout_masks: None, or three of (B, units), factors of h in the three products.

    Returns:
        (B, units), the new h.

    Example:
        >>> from keras import ops
        >>> from keras_attn.ops import gru_step
        >>> hidden = gru_step(ops.ones((2, 12)), ops.zeros((2, 4)), ops.ones((4, 12)))
        >>> round(float(hidden[0, 0]), 4)  # (1 - sigmoid(1)) tanh(1)
        0.2048

    Reference:
        [Cho et al., 2014](https://arxiv.org/abs/1406.1078v3), equations 5 to 8.
    """
    units = hidden.shape[-1]
    gate_masks, candidate_mask = None, 1
    if dropout_masks is not None:
        *gate_masks, candidate_mask = dropout_masks
    of_gates, x_h = projected[:, : 2 * units], projected[:, 2 * units :]
    products = _recurrent_products(hidden, recurrent_kernel[:, : 2 * units], gate_masks)
    gates = ops.split(of_gates + products, 2, axis=-1)  # (B, units) each
    z, r = map(recurrent_activation, gates)
    reset_hidden = r * hidden * candidate_mask
    candidate = activation(x_h + ops.matmul(reset_hidden, recurrent_kernel[:, 2 * units :]))
    return z * hidden + (1 - z) * candidate


def gru_step_reset_after(
    projected,
    hidden,
    recurrent_kernel,
    recurrent_bias=None,
    *,
    activation=ops.tanh,
    recurrent_activation=ops.sigmoid,
    dropout_masks=None,
):
    """One step of the gated recurrent unit, the reset gate after the product, as cuDNN has it.

        z = sigmoid(x_z + h U_z + b_z)
        r = sigmoid(x_r + h U_r + b_r)
        h' = z * h + (1 - z) * tanh(x_h + r * (h U_h + b_h))

    Args:
        projected: (B, 3 * units), the blocks x_z, x_r, x_h, their own biases included.
        hidden: (B, units), the h of the step before.
        recurrent_kernel: (units, 3 * units), the blocks U_z, U_r, U_h.
        recurrent_bias: (3 * units,), the blocks b_z, b_r, b_h, or None.
        activation: of the candidate.
        recurrent_activation: of the gates.
        dropout_masks: None, or three of (B, units), factors of h in the three products.

    Returns:
        (B, units), the new h.

    Example:
        >>> from keras import ops
        >>> from keras_attn.ops import gru_step_reset_after
        >>> hidden = gru_step_reset_after(ops.ones((2, 12)), ops.zeros((2, 4)), ops.ones((4, 12)))
        >>> round(float(hidden[0, 0]), 4)  # (1 - sigmoid(1)) tanh(1)
        0.2048

    Reference:
        [Cho et al., 2014, version 1](https://arxiv.org/abs/1406.1078v1).
    """
    gates = 2 * hidden.shape[-1]
    products = _recurrent_products(hidden, recurrent_kernel, dropout_masks, recurrent_bias)
    summed = ops.split(projected[:, :gates] + products[:, :gates], 2, axis=-1)  # (B, units) each
    z, r = map(recurrent_activation, summed)
    candidate = activation(projected[:, gates:] + r * products[:, gates:])
    return z * hidden + (1 - z) * candidate


def _recurrent_products(hidden, recurrent_kernel, dropout_masks=None, bias=None):
    """The products of h with every block of the kernel: (B, blocks * units)."""
    if dropout_masks is None:
        return project(hidden, recurrent_kernel, bias)
    return project_blocks([hidden * mask for mask in dropout_masks], recurrent_kernel, bias)
