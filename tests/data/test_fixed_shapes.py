import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.sequence_pairs import model_batch
from keras_attn.text import END

SOURCES = [[[5, 6, 1], [7, 1]], [[5, 1]], [[4, 4, 4, 4, 1], [5, 1], [6, 1]]]
TARGETS = [[[8, 1], [9, 9, 9, 1]], [[3, 1]], [[1], [1], [8, 8, 1]]]


def _batches():
    batches = [
        model_batch(tf.ragged.constant(s), tf.ragged.constant(t))
        for s, t in zip(SOURCES, TARGETS, strict=True)
    ]
    spec = tf.nest.map_structure(
        lambda x: tf.TensorSpec([None] * x.shape.rank, x.dtype), batches[0]
    )
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)


def test_batches_are_padded_to_their_shape_and_nothing_real_is_changed():
    padded = list(with_fixed_shapes(_batches(), {2: 4, 4: 3, 6: 3}))
    assert [tuple(labels.shape) for _, labels, _ in padded] == [(3, 4), (4, 2), (3, 6)]
    for (inputs, labels, mask), (before, labels_before, mask_before) in zip(
        padded, _batches(), strict=True
    ):
        rows, length = labels_before.shape
        np.testing.assert_array_equal(labels[mask], labels_before[mask_before])
        np.testing.assert_array_equal(mask[:rows, :length], mask_before)
        np.testing.assert_array_equal(inputs["target"][:rows, :length], before["target"])
        np.testing.assert_array_equal(inputs["source_lengths"][:rows], before["source_lengths"])
        width = before["source"].shape[1]
        np.testing.assert_array_equal(inputs["source"][:rows, :width], before["source"])
        np.testing.assert_array_equal(inputs["source"][rows:, 0], END)
        np.testing.assert_array_equal(inputs["source_lengths"][rows:], 1)


@pytest.mark.parametrize("shapes", [{2: 4}, {6: 2}], ids=["too-long", "too-many"])
def test_a_batch_that_no_shape_holds_is_never_cut(shapes):
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(with_fixed_shapes(_batches(), shapes))
