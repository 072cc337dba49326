"""The long short-term memory over a whole sequence, with a gradient written by hand."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import lstm_gradient, masks
from keras_attn.ops.chunks import before_each_step, scan_chunks, stacked, steps_of
from keras_attn.ops.compilation import compiles
from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.lstm_gradient import LSTMWeights
from keras_attn.ops.products import sum_of_outer_products, sum_of_rows, times
from keras_attn.ops.recurrent import LSTMForm


def lstm_scan(
    inputs,
    initial_states,
    kernel,
    recurrent_kernel,
    bias=None,
    peephole_kernel=None,
    gate_recurrent_kernel=None,
    *,
    form: LSTMForm = LSTMForm(),  # noqa: B008, it is immutable
    mask=None,
    reverse: bool = False,
    jit_compile: bool | str = "auto",
    saves: bool = True,
):
    """Run a long short-term memory over a sequence: `h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1})`.

    The equations are those of `lstm_step`, and so are the results. What differs is the gradient,
    which is ours: the loop backwards carries those of h and c (and of FGR's gates) alone, and that
    of each weight is one product after the loop.

    Args:
        inputs: (B, T, D).
        initial_states: list of h and c, (B, units) each; with FGR also [i, f, o], (B, 3 * units).
        kernel: (D, blocks * units), blocks i, f, c, o without those that the form lacks.
        recurrent_kernel: (units, blocks * units).
        bias: (blocks * units,) or None.
        peephole_kernel: if the form has peepholes, (gates, units) or (units, gates * units).
        gate_recurrent_kernel: for FGR, (3 * units, 3 * units).
        form: which LSTM it is.
        mask: boolean (B, T) or None; a masked step leaves states and output as they were.
        reverse: go from the last moment to the first; each output stays beside its input.
        jit_compile: whether XLA compiles it, once for each new shape, where it may be used:
            `"auto"`, where that pays (see `ops.compilation.compiles`), `True` or `False`.
        saves: whether the loop saves the gates for its gradient. Without, it is faster, and a
            gradient that is asked for all the same computes them once more.

    Returns:
        `(outputs, states)`: h of all moments, (B, T, units), and the list of the last states.

    Raises:
        ValueError: a mask that is not boolean; weights that the form has no place for, or the lack
            of one that it needs.

    Example:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import lstm_scan
    >>> outputs, (h, c) = lstm_scan(
    ...     tf.ones([2, 5, 3]), [tf.zeros([2, 4])] * 2, tf.ones([3, 16]), tf.ones([4, 16]))
    >>> outputs.shape, c.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))

    References:
        - [Gers and Schmidhuber, 2000](https://doi.org/10.1109/IJCNN.2000.861302), peepholes
        - [Greff et al., 2015](https://arxiv.org/abs/1503.04069), the variants
    """
    given = _Given(
        inputs=tf.transpose(inputs, [1, 0, 2]),
        initial_states=tuple(initial_states),
        kernel=lstm_gradient.gates_first(kernel, form),
        bias=None if bias is None else lstm_gradient.gates_first(bias, form),
        recurrent_kernel=lstm_gradient.gates_first(recurrent_kernel, form),
        weights=LSTMWeights.of(form, peephole_kernel, gate_recurrent_kernel),
        mask=None if mask is None else masks.of_steps(mask, inputs),
    )
    jit_compile = compiles(jit_compile, inputs, recurrent_kernel.shape[0])
    saving_nothing = None if saves else _outputs
    run = with_gradient(_forward, _backward, (form, reverse), jit_compile, saving_nothing)
    hidden, *last = run(given)
    return tf.transpose(hidden, [1, 0, 2]), last


class _Given(NamedTuple):
    """What the loop reads, and is differentiated by but for the mask; sequences time-major."""

    inputs: tf.Tensor  # (T, B, D)
    initial_states: tuple  # h, c (B, units)[, gates (B, 3 * units)]
    kernel: tf.Tensor  # (D, blocks * units), gates first
    bias: tf.Tensor | None  # (blocks * units,), gates first
    recurrent_kernel: tf.Tensor  # (units, blocks * units), gates first
    weights: LSTMWeights
    mask: tf.Tensor | None  # (T, B, 1)


def _forward(form, reverse, given):
    """h of all steps and the last states; c, what the steps kept, and FGR's third state."""
    (hidden, *saved), last = scan_chunks(
        lambda moments, states: _chunk(form, reverse, given, moments, states),
        (given.inputs, given.mask),
        given.initial_states,
        reverse,
    )
    return (hidden, *last), tuple(saved)


def _outputs(form, reverse, given):
    """h of all steps and the last states."""

    def chunk(moments, states):
        collected, states = _chunk(form, reverse, given, moments, states)
        return collected[0], states

    hidden, last = scan_chunks(chunk, (given.inputs, given.mask), given.initial_states, reverse)
    return (hidden, *last)


def _chunk(form, reverse, given, moments, states):
    """Some steps: their states and what they kept, (K, B, ...) each, and the last states."""
    inputs, mask = moments
    projected = times(inputs, given.kernel)  # (K, B, blocks * units)
    if given.bias is not None:
        projected += given.bias
    collected = []
    for k in steps_of(inputs, reverse):
        sums = projected[k] + tf.matmul(states[0], given.recurrent_kernel)
        states, kept = lstm_gradient.lstm_step(
            form, given.weights, sums, states, None if mask is None else mask[k]
        )
        collected.append((*states, kept))
    return stacked(collected, reverse), tuple(states)


def _backward(form, reverse, given, outputs, saved, output_gradients):
    hidden, (cells, *gate_states, kept) = outputs[0], saved
    d_hidden, *d_last = output_gradients
    sequences = hidden, cells, *gate_states
    hidden, cells_before, *gate_states = (
        before_each_step(initial, states, reverse)
        for initial, states in zip(given.initial_states, sequences, strict=True)
    )
    turned_kernel, turned = tf.transpose(given.recurrent_kernel), given.weights.turned()
    mask = None if given.mask is None else tf.cast(given.mask, hidden.dtype)

    def chunk(moments, d_states):
        d_hidden, cells_before, cells, kept, mask = moments
        slopes = lstm_gradient.slopes(form, cells_before, cells, kept, mask)
        collected = []
        for k in steps_of(d_hidden, not reverse):
            d_states = d_states[0] + d_hidden[k], *d_states[1:]
            (d_held, *d_others), d_sums = lstm_gradient.lstm_step_gradient(
                form, turned, d_states, slopes.of_step(k)
            )
            d_before = tf.matmul(d_sums, turned_kernel)
            d_states = (d_before if d_held is None else d_before + d_held, *d_others)
            collected.append((d_sums,))
        return stacked(collected, not reverse), d_states

    (d_sums,), d_initial = scan_chunks(
        chunk, (d_hidden, cells_before, cells, kept, mask), tuple(d_last), not reverse
    )
    return _Given(
        inputs=times(d_sums, given.kernel, transpose=True),
        initial_states=d_initial,
        kernel=sum_of_outer_products(given.inputs, d_sums),
        bias=None if given.bias is None else sum_of_rows(d_sums),
        recurrent_kernel=sum_of_outer_products(hidden, d_sums),
        weights=lstm_gradient.weight_gradients(
            form, given.weights, cells_before, cells, gate_states, d_sums
        ),
        mask=None,
    )
