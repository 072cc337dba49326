"""One step of every LSTM of `LSTMForm` that keeps its gates, and the step's gradient.

The equations are those of `ops.recurrent.lstm_step`. Inside, the blocks of the kernels are in the
order gates, candidate (`gates_first`), so that the gates are one slice. The products of the inputs
and of h are the caller's, which may have further products of them to make: a step is given their
sums, and returns the gradient of these.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops.peepholes import DiagonalPeepholes, FullPeepholes
from keras_attn.ops.products import sum_of_outer_products
from keras_attn.ops.recurrent import LSTMForm


def gates_first(kernel, form: LSTMForm):
    """A kernel or bias (..., blocks * units) with the block of the candidate moved to the end."""
    parts = dict(zip(form.blocks, tf.split(kernel, len(form.blocks), axis=-1), strict=True))
    return tf.concat([parts[name] for name in (*form.gates, "candidate")], axis=-1)


def late_gates(form: LSTMForm) -> int:
    """How many gates, 0 or 1, see the new cell and must wait for it: the output gate at most."""
    sees_new = form.peepholes is not None and form.output_gate_sees == "new"
    return int(sees_new and "output" in form.gates)


Peepholes = DiagonalPeepholes | FullPeepholes | None


def split_peepholes(form: LSTMForm, kernel) -> tuple[Peepholes, Peepholes]:
    """The peepholes of the gates that see the cell before, and of those that see the new one."""
    if form.peepholes is None:
        return None, None
    count = len(form.gates)
    early = count - late_gates(form)
    if form.peepholes == "diagonal":
        parts, kind = (kernel[:early], kernel[early:]), DiagonalPeepholes
    else:
        width = early * kernel.shape[0]
        parts, kind = (kernel[:, :width], kernel[:, width:]), FullPeepholes
    return (kind(parts[0]) if early else None), (kind(parts[1]) if early < count else None)


class LSTMWeights(NamedTuple):
    """The weights of a step beside those of the inputs and of h."""

    early_peepholes: Peepholes
    late_peepholes: Peepholes
    gate_recurrent_kernel: tf.Tensor | None  # (3 * units, 3 * units), of FGR

    @classmethod
    def of(cls, form: LSTMForm, peephole_kernel, gate_recurrent_kernel) -> "LSTMWeights":
        """The weights of a form, or `ValueError` for one that it lacks or has no place for."""
        _require("peephole_kernel", peephole_kernel, form.peepholes is not None, form)
        _require("gate_recurrent_kernel", gate_recurrent_kernel, form.variant == "FGR", form)
        return cls(*split_peepholes(form, peephole_kernel), gate_recurrent_kernel)

    def turned(self) -> "LSTMWeights":
        """The kernels transposed for the way back; peepholes turn themselves."""
        gates = self.gate_recurrent_kernel
        return self._replace(gate_recurrent_kernel=None if gates is None else tf.transpose(gates))


def _require(name, weight, needed: bool, form):
    if (weight is not None) != needed:
        raise ValueError(
            f"An LSTM has a `{name}` if its form asks for it, and else none; this one "
            f"{'needs' if needed else 'has no place for'} it. "
            f"Received: form={form} and {name} {'missing' if weight is None else 'given'}"
        )


def lstm_step(form: LSTMForm, weights: LSTMWeights, sums, states, mask=None):
    """One step: the new states, and its gates and candidate (B, blocks * units).

    Where the mask (B, 1) is False the states are the old ones. The cell is so before the output is
    made of it: XLA would otherwise compute the new cell twice, once to be masked and once for h.

    Args:
        form: which LSTM it is.
        weights: its other weights.
        sums: `x W + b + h U`, (B, blocks * units), gates first.
        states: before the step.
        mask: boolean (B, 1), or None.
    """

    def masked(new, old):
        return new if mask is None else tf.where(mask, new, old)

    hidden, cell = states[:2]
    units, count = hidden.shape[-1], len(form.gates)
    early = count - late_gates(form)
    of_gates, of_candidate = sums[:, : count * units], sums[:, count * units :]
    if form.variant == "FGR":
        of_gates += tf.matmul(states[2], weights.gate_recurrent_kernel)
    of_early = of_gates[:, : early * units]
    if weights.early_peepholes is not None:
        of_early += weights.early_peepholes.seen(cell)
    gates = tf.sigmoid(of_early)
    candidate = of_candidate if form.variant == "NIAF" else tf.tanh(of_candidate)
    named = _by_name(form, gates, units)
    cell = masked(_forget(form, named) * cell + named.get("input", 1) * candidate, cell)
    if weights.late_peepholes is not None:
        of_late = of_gates[:, early * units :] + weights.late_peepholes.seen(cell)
        named["output"] = tf.sigmoid(of_late)
        gates = tf.concat([gates, named["output"]], axis=-1)
    new_states = [masked(named.get("output", 1) * _shown(form, cell), hidden), cell]
    if form.variant == "FGR":
        new_states.append(masked(gates, states[2]))
    return new_states, tf.concat([gates, candidate], axis=-1)


class Slopes(NamedTuple):
    """The derivatives of a step's states and sums, for any number of steps at once.

    With d the gradients, `dc += dh shown` for the new cell; `dz = dc sums`, but `dz = dh sums` for
    the output gate; `dc keep` for the cell before. A masked step hands `dh held` on to h, and the
    same of FGR's gates to these.
    """

    shown: tf.Tensor  # (..., units)
    sums: tf.Tensor  # (..., blocks * units), gates first
    keep: tf.Tensor  # (..., units)
    gates: tuple  # of FGR one of (..., 3 * units), the gates by their sums, else none
    held: tuple  # with a mask one of (..., 1), else none

    def of_step(self, k: int) -> "Slopes":
        """Those of one of the steps."""
        return tf.nest.map_structure(lambda slope: slope[k], self)


def slopes(form: LSTMForm, cell_before, cell, kept, mask=None) -> Slopes:
    """The slopes of steps (..., units) with the gates and candidates that they kept.

    Args:
        mask: None, or factors 0 and 1 (..., 1); a masked step keeps its states and has no others.
    """
    candidate = tf.split(kept, len(form.blocks), axis=-1)[-1]
    gates = _by_name(form, kept, cell.shape[-1])
    i, f, o = (gates.get(name) for name in ("input", "forget", "output"))
    shown = _shown(form, cell)
    squashed = 1 - candidate * candidate if form.variant != "NIAF" else tf.ones_like(candidate)
    of_cell = tf.ones_like(cell) if form.variant == "NOAF" else 1 - shown * shown
    of_gate = {
        "input": candidate - cell_before if form.variant == "CIFG" else candidate,
        "forget": cell_before,
        "output": shown,
    }
    by_sum = {name: gate * (1 - gate) for name, gate in gates.items()}
    parts = [of_gate[name] * by_sum[name] for name in form.gates]
    parts.append(squashed if i is None else i * squashed)
    keep = 1 - i if form.variant == "CIFG" else tf.ones_like(cell) if f is None else f
    found = Slopes(
        shown=of_cell if o is None else o * of_cell,
        sums=tf.concat(parts, axis=-1),
        keep=keep,
        gates=(tf.concat(list(by_sum.values()), axis=-1),) if form.variant == "FGR" else (),
        held=(),
    )
    if mask is None:
        return found
    masked = tf.nest.map_structure(lambda slope: mask * slope, found)
    return masked._replace(keep=masked.keep + (1 - mask), held=(1 - mask,))


def lstm_step_gradient(form: LSTMForm, turned: LSTMWeights, d_states, slopes: Slopes):
    """One step backwards.

    Args:
        turned: the weights, `LSTMWeights.turned()`.
        d_states: gradients of the states after the step, as a list.
        slopes: of the step, (B, ...).

    Returns:
        Gradients of the states before, a list, that of h without what passes its product, None
        for none; and of the sums, (B, blocks * units).
    """
    d_hidden, d_cell = d_states[:2]
    units, count = d_cell.shape[-1], len(form.gates)
    early = count - late_gates(form)
    from_history = d_states[2] * slopes.gates[0] if slopes.gates else None
    d_cell += d_hidden * slopes.shown
    if turned.late_peepholes is not None:
        columns = slice(early * units, count * units)
        d_late = d_hidden * slopes.sums[:, columns]
        if from_history is not None:
            d_late += from_history[:, columns]
        d_cell += turned.late_peepholes.gradient_of_cell(d_late)
    sources = [d_hidden if name == "output" else d_cell for name in form.gates]
    d_sums = tf.concat([*sources, d_cell], axis=-1) * slopes.sums
    d_gates = d_sums[:, : count * units]
    if from_history is not None:
        d_gates += from_history
        d_sums = tf.concat([d_gates, d_sums[:, count * units :]], axis=-1)
    d_cell *= slopes.keep
    if turned.early_peepholes is not None:
        d_cell += turned.early_peepholes.gradient_of_cell(d_gates[:, : early * units])
    d_before = [slopes.held[0] * d_hidden if slopes.held else None, d_cell]
    if form.variant == "FGR":
        d_before.append(tf.matmul(d_gates, turned.gate_recurrent_kernel))
        if slopes.held:
            d_before[2] += slopes.held[0] * d_states[2]
    return d_before, d_sums


def weight_gradients(form, weights, cells_before, cells, gate_states, d_sums):
    """`LSTMWeights` of gradients, from the cells before and after all steps.

    Args:
        gate_states: FGR's third state before all steps in a list, else an empty list.
        d_sums: (T, B, blocks * units).
    """
    units, count = cells.shape[-1], len(form.gates)
    split = (count - late_gates(form)) * units
    d_gates = d_sums[..., : count * units]
    early = late = of_gates = None
    if weights.early_peepholes is not None:
        early = weights.early_peepholes.gradient(cells_before, d_gates[..., :split])
    if weights.late_peepholes is not None:
        late = weights.late_peepholes.gradient(cells, d_gates[..., split:])
    if gate_states:
        of_gates = sum_of_outer_products(gate_states[0], d_gates)
    return LSTMWeights(early, late, of_gates)


def _by_name(form: LSTMForm, gates, units: int) -> dict:
    """The gates (..., n * units), of which the last may be missing or followed by a candidate."""
    parts = tf.split(gates, gates.shape[-1] // units, axis=-1)
    return dict(zip(form.gates, parts, strict=False))


def _forget(form: LSTMForm, gates: dict):
    return 1 - gates["input"] if form.variant == "CIFG" else gates.get("forget", 1)


def _shown(form: LSTMForm, cell):
    return cell if form.variant == "NOAF" else tf.tanh(cell)
