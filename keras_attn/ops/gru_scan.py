"""The gated recurrent unit over a whole sequence, with a gradient written by hand."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import masks
from keras_attn.ops.chunks import before_each_step, scan_chunks, stacked, steps_of
from keras_attn.ops.compilation import compiles
from keras_attn.ops.gru_gradient import form_of, of_projection
from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.products import sum_of_outer_products, sum_of_rows, times


def gru_scan(
    inputs,
    initial_state,
    kernel,
    recurrent_kernel,
    bias=None,
    recurrent_bias=None,
    *,
    reset_after: bool = False,
    mask=None,
    reverse: bool = False,
    jit_compile: bool | str = "auto",
    saves: bool = True,
):
    """Run a gated recurrent unit over a sequence: `h_t = GRU(x_t, h_{t-1})`.

    The equations are those of `gru_step`, or with `reset_after` of `gru_step_reset_after`; so are
    the results. What differs is the gradient, which is ours: the loop backwards carries that of h
    alone, and that of each weight is one product after the loop.

    Args:
        inputs: (B, T, D).
        initial_state: (B, units).
        kernel: (D, 3 * units), blocks z, r, h.
        recurrent_kernel: (units, 3 * units).
        bias: (3 * units,) or None.
        recurrent_bias: (3 * units,) or None; needs `reset_after`.
        reset_after: whether the reset gate follows the product.
        mask: boolean (B, T) or None; a masked step leaves state and output as they were.
        reverse: go from the last moment to the first; each output stays beside its input.
        jit_compile: whether XLA compiles it, once for each new shape, where it may be used:
            `"auto"`, where that pays (see `ops.compilation.compiles`), `True` or `False`.
        saves: whether the loop saves the gates for its gradient. Without, it is faster, and a
            gradient that is asked for all the same computes them once more.

    Returns:
        `(outputs, state)`: (B, T, units) and the last state, (B, units).

    Raises:
        ValueError: a mask that is not boolean; a `recurrent_bias` without `reset_after`.

    Example:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import gru_scan
    >>> outputs, state = gru_scan(
    ...     tf.ones([2, 5, 3]), tf.zeros([2, 4]), tf.ones([3, 12]), tf.ones([4, 12]))
    >>> outputs.shape, state.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))

    Reference:
        [Cho et al., 2014](https://arxiv.org/abs/1406.1078)
    """
    form = form_of(reset_after, recurrent_bias)
    direct_kernel, candidate_kernel = form.split(recurrent_kernel)
    given = _Given(
        inputs=tf.transpose(inputs, [1, 0, 2]),
        initial_state=initial_state,
        kernel=kernel,
        bias=bias,
        direct_kernel=direct_kernel,
        candidate_kernel=candidate_kernel,
        recurrent_bias=recurrent_bias,
        mask=None if mask is None else masks.of_steps(mask, inputs),
    )
    jit_compile = compiles(jit_compile, inputs, recurrent_kernel.shape[0])
    saving_nothing = None if saves else _outputs
    run = with_gradient(_forward, _backward, (form, reverse), jit_compile, saving_nothing)
    states, last = run(given)
    return tf.transpose(states, [1, 0, 2]), last


class _Given(NamedTuple):
    """What the loop reads, and is differentiated by but for the mask; sequences time-major."""

    inputs: tf.Tensor  # (T, B, D)
    initial_state: tf.Tensor  # (B, units)
    kernel: tf.Tensor  # (D, 3 * units)
    bias: tf.Tensor | None  # (3 * units,)
    direct_kernel: tf.Tensor  # (units, blocks * units)
    candidate_kernel: tuple  # one of (units, units), or none
    recurrent_bias: tf.Tensor | None  # (blocks * units,)
    mask: tf.Tensor | None  # (T, B, 1)


def _forward(form, reverse, given):
    """States of all steps and the last one; the gates."""
    (states, gates), last = scan_chunks(
        lambda moments, hidden: _chunk(form, reverse, given, moments, hidden),
        (given.inputs, given.mask),
        given.initial_state,
        reverse,
    )
    return (states, last), (gates,)


def _outputs(form, reverse, given):
    """States of all steps and the last one."""

    def chunk(moments, hidden):
        (states, _), hidden = _chunk(form, reverse, given, moments, hidden)
        return states, hidden

    return scan_chunks(chunk, (given.inputs, given.mask), given.initial_state, reverse)


def _chunk(form, reverse, given, moments, hidden):
    """Some steps: their states and gates, (K, B, ...) each, and the last state."""
    inputs, mask = moments
    projected = times(inputs, given.kernel)  # (K, B, 3 * units)
    if given.bias is not None:
        projected += given.bias
    collected = []
    for k in steps_of(inputs, reverse):
        products = tf.matmul(hidden, given.direct_kernel)
        if given.recurrent_bias is not None:
            products += given.recurrent_bias
        new, gates = form.step(projected[k], products, hidden, *given.candidate_kernel)
        hidden = new if mask is None else tf.where(mask[k], new, hidden)
        collected.append((hidden, gates))
    return stacked(collected, reverse), hidden


def _backward(form, reverse, given, outputs, saved, output_gradients):
    (states, _), (gates,), (d_states, d_last) = outputs, saved, output_gradients
    hidden = before_each_step(given.initial_state, states, reverse)
    turned = tf.transpose(given.direct_kernel)
    turned_candidate = tuple(tf.transpose(kernel) for kernel in given.candidate_kernel)

    def chunk(moments, d_hidden):
        d_states, hidden, gates, mask = moments
        slopes = form.slopes(hidden, gates, mask)
        collected = []
        for k in steps_of(d_states, not reverse):
            d_products, d_candidate, d_before = form.step_gradient(
                d_hidden + d_states[k], tuple(slope[k] for slope in slopes), *turned_candidate
            )
            d_hidden = d_before + tf.matmul(d_products, turned)
            collected.append((d_products, d_candidate))
        return stacked(collected, not reverse), d_hidden

    (d_products, d_candidate), d_initial = scan_chunks(
        chunk, (d_states, hidden, gates, given.mask), d_last, not reverse
    )
    d_projected = of_projection(d_products, d_candidate)  # (T, B, 3 * units)
    return _Given(
        inputs=times(d_projected, given.kernel, transpose=True),
        initial_state=d_initial,
        kernel=sum_of_outer_products(given.inputs, d_projected),
        bias=None if given.bias is None else sum_of_rows(d_projected),
        direct_kernel=sum_of_outer_products(hidden, d_products),
        candidate_kernel=form.candidate_kernel_gradient(hidden, gates, d_candidate),
        recurrent_bias=None if given.recurrent_bias is None else sum_of_rows(d_products),
        mask=None,
    )
