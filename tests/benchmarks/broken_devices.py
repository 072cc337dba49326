"""The checks of `devices.py`, with layers beside the others that are broken in each way."""

import os
import sys

from device_checks import program

from keras_attn.quiet import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from device_checks import layer_cases, layers  # noqa: E402


class WrongOnOneDevice(keras.layers.Layer):
    """The identity, but a thousandth off on the second device."""

    def call(self, inputs):
        replica = tf.distribute.get_replica_context()
        index = replica.replica_id_in_sync_group if replica else 0
        return inputs + 1e-3 * tf.cast(tf.equal(index, 1), inputs.dtype)


class NotANumber(keras.layers.Layer):
    def call(self, inputs):
        return inputs * float("nan")


class Refusing(keras.layers.Layer):
    def call(self, inputs):
        raise ValueError("no such kernel\nand a long story")

    def compute_output_spec(self, inputs):
        return inputs


class Fatal(keras.layers.Layer):
    def call(self, inputs):
        os.abort()


BROKEN = {
    "broken, wrong on one device": WrongOnOneDevice,
    "broken, not a number": NotANumber,
    "broken, refusing": Refusing,
    "broken, fatal": Fatal,
}
layers.QUICK = {"float32": (*BROKEN, *layers.QUICK["float32"])}
layer_cases.CASES.update(
    {name: layer_cases.LayerCase(make, (layer_cases.SEQUENCE,)) for name, make in BROKEN.items()}
)

if __name__ == "__main__":
    sys.exit(program.main())
