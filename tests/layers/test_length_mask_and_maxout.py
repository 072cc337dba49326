import keras
import numpy as np
import pytest

from keras_attn.layers import LengthMask, Maxout


def test_a_length_mask_is_true_before_the_length():
    mask = LengthMask()(np.zeros((3, 4)), np.array([0, 2, 4]))
    np.testing.assert_array_equal(mask, [[False] * 4, [True, True, False, False], [True] * 4])


def test_a_length_mask_in_a_functional_model_takes_any_length():
    sequence, lengths = keras.Input((None,)), keras.Input((), dtype="int32")
    model = keras.Model([sequence, lengths], LengthMask()(sequence, lengths))
    assert model([np.zeros((2, 5)), np.array([1, 2])]).shape == (2, 5)
    assert model([np.zeros((1, 3)), np.array([9])]).numpy().all()


def test_maxout_is_the_largest_of_neighbouring_pieces():
    inputs = np.random.default_rng(0).normal(size=(2, 3, 6))
    expected = np.maximum(np.maximum(inputs[..., ::3], inputs[..., 1::3]), inputs[..., 2::3])
    np.testing.assert_allclose(Maxout(3)(inputs), expected, rtol=1e-6)
    assert Maxout(3)(keras.Input((None, 6))).shape == (None, None, 2)


def test_maxout_of_features_that_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"of the 2 pieces.*Received: input_shape=\(1, 3\)"):
        Maxout(2)(np.zeros((1, 3)))


def test_maxout_without_a_piece_is_refused():
    with pytest.raises(ValueError, match="Received: pieces=0"):
        Maxout(0)


def test_maxout_of_an_empty_batch_is_empty():
    assert Maxout(2)(keras.ops.zeros((0, 8))).shape == (0, 4)
