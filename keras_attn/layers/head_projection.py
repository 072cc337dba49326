"""The projections of multi-head attention, each as one product of two matrices."""

import math
import string

import keras
from keras import ops


class HeadProjection(keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` of inputs (B, T, ...) whose axes but the first two are projected.

    An einsum makes the gradient of its kernel from transposed copies of the inputs and of the
    outputs' gradient, which takes about as long as the product itself; a product of matrices makes
    no copy. A quantised projection is Keras' own.
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
        outputs = ops.reshape(outputs, (batch, length, *sizes))
        return outputs if self.activation is None else self.activation(outputs)

    def quantize(self, mode=None, type_check=True, config=None):
        # The weights are those of `EinsumDense`, so that Keras need not refuse the subclass.
        super().quantize(mode, type_check=False, config=config)


def head_projection(name, input_sizes, output_sizes, use_bias, **options) -> HeadProjection:
    """A built projection of inputs (B, T, *input_sizes) to (B, T, *output_sizes)."""
    count = len(input_sizes)
    summed = string.ascii_lowercase[2 : 2 + count]
    made = string.ascii_lowercase[2 + count : 2 + count + len(output_sizes)]
    projection = HeadProjection(
        f"ab{summed},{summed}{made}->ab{made}",  # the einsum of Keras' layers, by its letters too
        output_shape=(None, *output_sizes),
        bias_axes=made if use_bias else None,
        name=name,
        **options,
    )
    projection.build((None, None, *input_sizes))
    return projection
