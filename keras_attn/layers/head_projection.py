"""The projections of multi-head attention, each as one product of two matrices."""

import math

import keras
from keras import ops


class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` of inputs (B, T, ...) whose axes but the first two are projected.

    An einsum makes the gradient of its kernel from transposed copies of the inputs and of the
    outputs' gradient, which takes about as long as the product itself; a product of matrices makes
    no copy.
    """

    def call(self, inputs, training=None):
        batch, length, *_ = ops.shape(inputs)
        width = math.prod(inputs.shape[2:])
        kernel = self.kernel
        sizes = tuple(kernel.shape[len(inputs.shape) - 2 :])
        outputs = ops.matmul(
            ops.reshape(inputs, (batch * length, width)),
            ops.reshape(kernel, (width, math.prod(sizes))),
        )
        if self.bias is not None:
            outputs = ops.add(outputs, ops.reshape(self.bias, (math.prod(sizes),)))
        return ops.reshape(outputs, (batch, length, *sizes))
