"""The recurrent cells that `ops.attention_loop` can run, each with its step and the way back.

A cell is given the products of h, its first state, and what is projected of its inputs. Both kinds
are used alike:

- `step(x, products, states, weights, mask)`: the new states, a tuple, and the gates to keep; where
  the mask (B, 1) is False the states are the old ones;
- `slopes(before, others, gates, mask)`: a nest of the derivatives that the way back multiplies
  with, from the states before the step and those but h after it;
- `turned(weights)`: the weights as the way back takes them, made once before its loop;
- `step_gradient(d_states, slopes, turned)`: gradients of the products and in a tuple of what else
  the weights' gradients need, and of the states before, a list. The first of these, of h, is
  without what passes the products, None for nothing;
- `of_inputs(d_products, d_others)`: the gradient of x;
- `weight_gradients(weights, before, others, gates, d_products, d_others)`: of all steps at once.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import lstm_gradient
from keras_attn.ops.compilation import in_one_pass
from keras_attn.ops.gru_gradient import of_projection
from keras_attn.ops.recurrent import LSTMForm


class AttendingGRU(NamedTuple):
    """A gated recurrent unit; its weights are those of the candidate, a tuple."""

    form: type  # of `ops.gru_gradient`

    def step(self, x, products, states, weights, mask=None):
        (hidden,) = states
        new, gates = self.form.step(x, products, hidden, *weights)
        return (new if mask is None else tf.where(mask, new, hidden),), gates

    def slopes(self, before, others, gates, mask=None):
        return self.form.slopes(*before, gates, mask)

    def turned(self, weights):
        return tuple(map(tf.transpose, weights))

    def step_gradient(self, d_states, slopes, turned):
        d_products, d_candidate, d_hidden = self.form.step_gradient(*d_states, slopes, *turned)
        return d_products, (d_candidate,), [d_hidden]

    def of_inputs(self, d_products, d_others):
        return of_projection(d_products, *d_others)

    def weight_gradients(self, weights, before, others, gates, d_products, d_others):
        return self.form.candidate_kernel_gradient(*before, gates, *d_others)


class AttendingLSTM(NamedTuple):
    """A long short-term memory; its weights are `LSTMWeights`, its kernels have gates first."""

    form: LSTMForm

    def step(self, x, products, states, weights, mask=None):
        return self._run(_lstm_step, x, products, states, weights, mask)

    def slopes(self, before, others, gates, mask=None):
        return before[1], others[0], gates, mask

    def turned(self, weights):
        return weights.turned()

    def step_gradient(self, d_states, slopes, turned):
        d_before, d_sums = self._run(_lstm_step_gradient, d_states, slopes, turned)
        return d_sums, (), d_before

    def of_inputs(self, d_products, d_others):
        return d_products

    def weight_gradients(self, weights, before, others, gates, d_products, d_others):
        return lstm_gradient.weight_gradients(
            self.form, weights, before[1], others[0], list(before[2:]), d_products
        )

    def _run(self, function, *nests):
        """Run a step in one pass, but one with products of matrices, where XLA is no faster."""
        if self.form.peepholes == "full" or self.form.variant == "FGR":
            return function(self.form, *nests)
        return in_one_pass(function, *nests, setting=(self.form,))


def _lstm_step(form, x, products, states, weights, mask):
    states, gates = lstm_gradient.lstm_step(form, weights, x + products, states, mask)
    return tuple(states), gates


def _lstm_step_gradient(form, d_states, kept, turned):
    cell_before, cell, gates, mask = kept
    mask = None if mask is None else tf.cast(mask, gates.dtype)
    slopes = lstm_gradient.slopes(form, cell_before, cell, gates, mask)
    return lstm_gradient.lstm_step_gradient(form, turned, d_states, slopes)
