"""Keras layers that a training step of a Transformer runs often, with the same results faster."""

import keras
import tensorflow as tf

from keras_attn.ops.dropout import dropout, int32_seed
from keras_attn.ops.layer_normalization import layer_normalization
from keras_attn.saved import registered


@registered
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` of the last axis by `ops.layer_normalization`."""

    def call(self, inputs):
        inputs = tf.convert_to_tensor(inputs)
        return layer_normalization(inputs, self.gamma, self.beta, self.epsilon)


@registered
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` by `ops.dropout`: it drops others than Keras with the same seed."""

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        seed = int32_seed(self.seed_generator.next())
        return dropout(tf.convert_to_tensor(inputs), self.rate, seed)
