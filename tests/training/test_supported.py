"""What would be trained wrongly, or not at all, is refused before the first step."""

import keras
import pytest
import tensorflow as tf

from keras_attn.training import fit


def _fit(model, optimizer):
    ids = tf.ones((2, 3), tf.int32)
    batches = tf.data.Dataset.from_tensors((ids, ids, ids > 0)).repeat()
    return fit(model, batches, 1, optimizer=optimizer)


def _model():
    return keras.Sequential([keras.Input((None,)), keras.layers.Embedding(5, 5)])


@pytest.mark.parametrize("optimizer", ["adam", keras.optimizers.Adam], ids=["name", "class"])
def test_what_is_no_optimiser_is_refused(optimizer):
    with pytest.raises(
        ValueError, match=r"an optimiser of keras\.optimizers.*Received: optimizer="
    ):
        _fit(_model(), optimizer)


def test_an_optimiser_of_another_model_is_refused_with_the_weight_it_lacks():
    optimizer = keras.optimizers.SGD()
    optimizer.build(_model().trainable_variables)
    with pytest.raises(
        ValueError, match=r"other variables.*Received: optimizer=sgd.* without .*embed"
    ):
        _fit(_model(), optimizer)
