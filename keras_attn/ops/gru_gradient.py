"""One step of the two gated recurrent units that keeps its gates, and the step's gradient.

`ResetBefore` is the form of Cho et al. (2014), `ResetAfter` that of cuDNN; the equations are those
of `gru_step` and `gru_step_reset_after`. Both are used alike:

- `blocks`: how many blocks of the recurrent kernel multiply h itself, the `direct` ones;
- `split(recurrent_kernel)`: the direct blocks, and a tuple of the kernel of r * h or of nothing;
- `step(x, products, hidden, *candidate_kernel)`: the new h, and the gates to keep;
- `slopes(hidden, gates, mask)`: the derivatives that the way back multiplies with, a tuple, for any
  number of steps at once: computed by chunks, XLA does not compute them anew for each use. A step
  that the mask (..., 1) hides, if there is a mask, has those of z = 1: all of h is kept;
- `step_gradient(dh, slopes, *turned_candidate_kernel)`, that kernel transposed: gradients
  for the products of the direct blocks, for the sum inside the candidate's tanh, and for h as far
  as it does not pass the products;
- `candidate_kernel_gradient(hidden, gates, d_candidate)`: of all steps at once.
"""

import tensorflow as tf

from keras_attn.ops.products import sum_of_outer_products


def form_of(reset_after: bool, recurrent_bias) -> type:
    """The form, or `ValueError` for a bias that it has no place for."""
    if recurrent_bias is not None and not reset_after:
        raise ValueError(
            "Only the GRU that resets after the product has a bias of its own there: pass "
            "reset_after=True or leave it out. Received: recurrent_bias of shape "
            f"{recurrent_bias.shape} and reset_after={reset_after}"
        )
    return ResetAfter if reset_after else ResetBefore


def of_projection(d_products, d_candidate):
    """The gradient of the projected inputs: blocks z, r, h."""
    units = d_candidate.shape[-1]
    return tf.concat([d_products[..., : 2 * units], d_candidate], axis=-1)


class ResetBefore:
    """`h' = z * h + (1 - z) * tanh(x_h + (r * h) U_h)`."""

    blocks = 2

    @staticmethod
    def split(recurrent_kernel):
        units = recurrent_kernel.shape[0]
        return recurrent_kernel[:, : 2 * units], (recurrent_kernel[:, 2 * units :],)

    @staticmethod
    def step(x, products, hidden, candidate_kernel):
        units = hidden.shape[-1]
        gates = tf.sigmoid(x[:, : 2 * units] + products)  # (B, 2 * units)
        z, r = tf.split(gates, 2, axis=-1)
        candidate = tf.tanh(x[:, 2 * units :] + tf.matmul(r * hidden, candidate_kernel))
        return candidate + z * (hidden - candidate), tf.concat([gates, candidate], axis=-1)

    @staticmethod
    def slopes(hidden, gates, mask=None):
        z, r, candidate = tf.split(gates, 3, axis=-1)
        z = _one_where_hidden(z, mask)
        of_candidate = (1 - z) * (1 - candidate * candidate)
        by_z = (hidden - candidate) * z * (1 - z)
        by_r = hidden * r * (1 - r)
        return tf.concat([by_z, of_candidate], axis=-1), by_r, z, r

    @staticmethod
    def step_gradient(dh, slopes, turned_candidate_kernel):
        of_dh, by_r, z, r = slopes
        dz, d_candidate = tf.split(tf.concat([dh, dh], axis=-1) * of_dh, 2, axis=-1)
        d_reset = tf.matmul(d_candidate, turned_candidate_kernel)  # for r * h
        return tf.concat([dz, d_reset * by_r], axis=-1), d_candidate, dh * z + d_reset * r

    @staticmethod
    def candidate_kernel_gradient(hidden, gates, d_candidate):
        units = hidden.shape[-1]
        reset = gates[..., units : 2 * units] * hidden
        return (sum_of_outer_products(reset, d_candidate),)


class ResetAfter:
    """`h' = z * h + (1 - z) * tanh(x_h + r * (h U_h + b_h))`; the products hold the bias."""

    blocks = 3

    @staticmethod
    def split(recurrent_kernel):
        return recurrent_kernel, ()

    @staticmethod
    def step(x, products, hidden):
        units = hidden.shape[-1]
        gates = tf.sigmoid(x[:, : 2 * units] + products[:, : 2 * units])
        z, r = tf.split(gates, 2, axis=-1)
        inner = products[:, 2 * units :]
        candidate = tf.tanh(x[:, 2 * units :] + r * inner)
        return candidate + z * (hidden - candidate), tf.concat([gates, candidate, inner], axis=-1)

    @staticmethod
    def slopes(hidden, gates, mask=None):
        z, r, candidate, inner = tf.split(gates, 4, axis=-1)
        z = _one_where_hidden(z, mask)
        of_candidate = (1 - z) * (1 - candidate * candidate)
        of_inner = of_candidate * r
        by_z = (hidden - candidate) * z * (1 - z)
        by_r = of_inner * inner * (1 - r)
        return tf.concat([by_z, by_r, of_inner, of_candidate], axis=-1), z

    @staticmethod
    def step_gradient(dh, slopes):
        of_dh, z = slopes
        units = dh.shape[-1]
        d_sums = tf.concat([dh] * 4, axis=-1) * of_dh
        return d_sums[:, : 3 * units], d_sums[:, 3 * units :], dh * z

    @staticmethod
    def candidate_kernel_gradient(hidden, gates, d_candidate):
        return ()


def _one_where_hidden(z, mask):
    return z if mask is None else tf.where(mask, z, tf.ones_like(z))
