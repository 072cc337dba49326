"""The check of all layers finds what it promises to find."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from layer_check import check_layer


@keras.saving.register_keras_serializable(package="layer_check")
class MaskedScale(keras.layers.Layer):
    """A correct layer: `factor * weight * x` where the mask is True, 0 elsewhere."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
        self.supports_masking = True

    def build(self, inputs_shape):
        self.scale = self.add_weight(name="scale", shape=(inputs_shape[-1],))

    def call(self, inputs, mask=None):
        outputs = self.factor * self.scale * inputs
        if mask is not None:
            outputs = ops.where(ops.expand_dims(mask, -1), outputs, ops.zeros_like(outputs))
        return outputs

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class LosesArgument(MaskedScale):
    def get_config(self):
        return keras.layers.Layer.get_config(self)


class ChangesArgument(MaskedScale):
    def get_config(self):
        return {**super().get_config(), "factor": self.factor + 1}


class IgnoresMask(MaskedScale):
    def call(self, inputs, mask=None):
        return super().call(inputs)


class LeaksThroughMask(MaskedScale):
    def call(self, inputs, mask=None):
        return super().call(inputs, mask) + ops.mean(inputs, axis=1, keepdims=True)


class DividesByUnmasked(MaskedScale):
    def call(self, inputs, mask=None):
        seen = 1.0 if mask is None else ops.mean(ops.cast(mask, inputs.dtype))
        return super().call(inputs, mask) / seen


class ComputesInFloat32(MaskedScale):
    def call(self, inputs, mask=None):
        return ops.cast(super().call(inputs, mask), "float32")


class DeclaresOtherShape(MaskedScale):
    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], 7)


class FixesLength(MaskedScale):
    def call(self, inputs, mask=None):
        return super().call(inputs, mask) * ops.ones((5, 1), dtype=inputs.dtype)


class DiffersInGraph(MaskedScale):
    def call(self, inputs, mask=None):
        return super().call(inputs, mask) * (1.0 if tf.executing_eagerly() else 1.01)


class KeepsNumbersOutsideWeights(MaskedScale):
    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.offset = float(np.random.default_rng().standard_normal())

    def call(self, inputs, mask=None):
        return super().call(inputs, mask) + ops.cast(self.offset, inputs.dtype)


INPUTS = np.random.default_rng(0).standard_normal((3, 5, 4))
MASK = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 1, 1, 1]], bool)


def _check(layer_class, directory):
    keras.saving.register_keras_serializable(package="layer_check")(layer_class)
    check_layer(
        lambda **kwargs: layer_class(3.0, **kwargs),
        {"inputs": INPUTS},
        directory,
        masks={"mask": ("inputs", MASK)},
    )


def test_a_correct_layer_passes(tmp_path):
    _check(MaskedScale, tmp_path)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (LosesArgument, "lacks arguments"),
        (ChangesArgument, "config of a copy"),
        (IgnoresMask, "the masks change nothing"),
        (LeaksThroughMask, "where mask is False"),
        (DividesByUnmasked, "not finite"),
        (ComputesInFloat32, "an output is float32"),
        (DeclaresOtherShape, "symbolic shape"),
        (FixesLength, "symbolic shape"),
        (DiffersInGraph, "graph against eager"),
        (KeepsNumbersOutsideWeights, "a copy made from the config"),
    ],
)
def test_a_broken_layer_fails(broken, message, tmp_path):
    with pytest.raises((AssertionError, ValueError, tf.errors.OpError), match=message):
        _check(broken, tmp_path)
