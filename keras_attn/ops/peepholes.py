"""What the gates of an LSTM see of its cell, and the gradients of that."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops.products import sum_of_outer_products, sum_of_rows


class DiagonalPeepholes(NamedTuple):
    """Each unit of a gate sees its own cell: `P * c`, P (gates, units)."""

    kernel: tf.Tensor

    def seen(self, cell):
        """(B, units) -> (B, gates * units)."""
        return tf.reshape(cell[:, None] * self.kernel, [-1, self._width])

    def gradient_of_cell(self, d_gates):
        """(B, gates * units) -> (B, units)."""
        return tf.reduce_sum(self._by_gate(d_gates) * self.kernel, axis=1)

    def gradient(self, cells, d_gates) -> "DiagonalPeepholes":
        """Of the kernel over all steps, cells (..., units) and d_gates (..., gates * units)."""
        products = self._by_gate(d_gates) * tf.reshape(cells, [-1, 1, self.kernel.shape[1]])
        return DiagonalPeepholes(
            tf.reshape(sum_of_rows(tf.reshape(products, [-1, self._width])), self.kernel.shape)
        )

    def _by_gate(self, d_gates):
        return tf.reshape(d_gates, [-1, *self.kernel.shape])

    @property
    def _width(self) -> int:
        return self.kernel.shape[0] * self.kernel.shape[1]


class FullPeepholes(NamedTuple):
    """Each unit of a gate sees all cells: `c P`, P (units, gates * units)."""

    kernel: tf.Tensor

    def seen(self, cell):
        """(B, units) -> (B, gates * units)."""
        return tf.matmul(cell, self.kernel)

    def gradient_of_cell(self, d_gates):
        """(B, gates * units) -> (B, units)."""
        return tf.matmul(d_gates, self.kernel, transpose_b=True)

    def gradient(self, cells, d_gates) -> "FullPeepholes":
        """Of the kernel over all steps, cells (..., units) and d_gates (..., gates * units)."""
        return FullPeepholes(sum_of_outer_products(cells, d_gates))
