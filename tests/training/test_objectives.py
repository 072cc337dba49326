import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import RNNSearch
from keras_attn.training import projected_token_objective, token_objective


def _model_and_batch():
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
    return model, batch


def test_the_projected_objective_is_the_plain_one_with_the_same_gradients():
    model, batch = _model_and_batch()
    found = []
    for objective in (projected_token_objective(0.1), token_objective(0.1)):
        with tf.GradientTape() as tape:
            total, count = objective(model, batch)
        gradients = tape.gradient(total, [weight.value for weight in model.trainable_weights])
        found.append([total, count, *map(tf.convert_to_tensor, gradients)])
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


WEIGHTS = {"of rows": [0.5, 0.0, 2.0], "of tokens": np.linspace(0.0, 1.0, 12).reshape(3, 4)}


@pytest.mark.parametrize("is_static", [True, False], ids=["padded", "without padding"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_z_loss_weights_and_masked_labels_are_the_same_in_both_objectives(weights, is_static):
    model, (inputs, labels, mask) = _model_and_batch()
    weights = tf.constant(WEIGHTS[weights], tf.float32)
    labels = tf.where(mask, labels, -1)  # what stands behind the mask is ignored
    batch = inputs, labels, mask, weights

    def spec_of(x):
        return tf.TensorSpec(x.shape if is_static else [None] * x.shape.rank, x.dtype)

    found = []
    for make in (projected_token_objective, token_objective):
        objective = make(0.1, z_loss=0.01)
        traced = tf.function(
            lambda *batch, objective=objective: objective(model, batch),
            input_signature=tf.nest.map_structure(spec_of, batch),
        )
        found.append(traced(*batch))
    np.testing.assert_allclose(*found, rtol=1e-5)
    assert float(found[0][1]) > 0


@pytest.mark.parametrize("make", [token_objective, projected_token_objective])
def test_a_batch_without_a_mask_is_all_real(make):
    model, (inputs, labels, mask) = _model_and_batch()
    expected = make()(model, (inputs, labels, tf.ones_like(mask)))
    np.testing.assert_allclose(make()(model, (inputs, labels, None)), expected, rtol=1e-6)


@pytest.mark.parametrize("make", [token_objective, projected_token_objective])
def test_a_mask_of_rows_and_factors_outside_their_range_are_refused(make):
    model, (inputs, labels, mask) = _model_and_batch()
    with pytest.raises(ValueError, match=r"Received: mask\.shape=\(3,\)"):
        make()(model, (inputs, labels, mask[:, 0]))
    with pytest.raises(ValueError, match=r"Received: z_loss=-1"):
        make(z_loss=-1)
    with pytest.raises(ValueError, match=r"Received: label_smoothing=1"):
        make(1.0)
