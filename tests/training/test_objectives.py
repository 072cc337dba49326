import keras
import numpy as np
import tensorflow as tf

from keras_attn.models import RNNSearch
from keras_attn.training import projected_token_objective, token_objective


def test_the_projected_objective_is_the_plain_one_with_the_same_gradients():
    keras.utils.set_random_seed(0)
    model = RNNSearch(
        11, 11, embedding_dim=6, encoder_units=4, decoder_units=5, attention_units=4,
        readout_units=6, tie_embeddings=True, share_embeddings=True,
    )  # fmt: skip
    batch = (
        {
            "source": tf.random.uniform([3, 5], 3, 11, tf.int32),
            "source_lengths": tf.constant([5, 2, 3]),
            "target": tf.random.uniform([3, 4], 3, 11, tf.int32),
        },
        tf.random.uniform([3, 4], 3, 11, tf.int32),
        tf.sequence_mask([4, 1, 2], 4),
    )
    found = []
    for objective in (projected_token_objective(0.1), token_objective(0.1)):
        with tf.GradientTape() as tape:
            total, count = objective(model, batch)
        gradients = tape.gradient(total, [weight.value for weight in model.trainable_weights])
        found.append([total, count, *map(tf.convert_to_tensor, gradients)])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
