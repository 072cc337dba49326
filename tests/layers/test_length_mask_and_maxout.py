import keras
import numpy as np
import pytest
from layer_check import check_layer

from keras_attn.layers import LengthMask, Maxout

rng = np.random.default_rng(0)


def test_maxout_contract(tmp_path):
    check_layer(
        lambda dtype: Maxout(3, dtype=dtype), {"inputs": rng.standard_normal((3, 5, 6))}, tmp_path
    )


def test_length_mask_contract(tmp_path):
    check_layer(
        lambda dtype: LengthMask(dtype=dtype),
        {"sequence": rng.standard_normal((3, 5, 2)), "lengths": np.array([5, 0, 2])},
        tmp_path,
        dynamic_axes=(0,),
    )


def test_a_sequence_of_integers_has_the_maxout_of_its_numbers():
    assert Maxout(2)(np.array([[3, 1, 2, 5]])).numpy().tolist() == [[3.0, 5.0]]
    assert Maxout(2)(keras.Input((4,), dtype="int32")).dtype == "float32"


BAD_LENGTHS = {
    "floats": (np.zeros((2, 3)), np.array([1.0, 2.0]), "lengths.dtype="),
    "another-batch": (np.zeros((2, 3)), np.array([1, 2, 3]), r"lengths.shape=\(3,\)"),
    "columns": (np.zeros((2, 3)), np.array([[1], [2]]), r"lengths.shape=\(2, 1\)"),
    "no-positions": (np.zeros((2,)), np.array([1, 2]), r"sequence.shape=\(2,\)"),
    "symbolic": (keras.Input((3,)), keras.Input((2,), dtype="int32"), r"\(None, 2\)"),
}


@pytest.mark.parametrize("name", BAD_LENGTHS)
def test_lengths_that_are_not_one_integer_an_example_are_refused(name):
    sequence, lengths, received = BAD_LENGTHS[name]
    with pytest.raises(ValueError, match=f"(?s)Received: .*{received}"):
        LengthMask()(sequence, lengths)


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


@pytest.mark.parametrize("pieces", [0, -1, 2.5, True])
def test_maxout_without_a_whole_number_of_pieces_is_refused(pieces):
    with pytest.raises(ValueError, match=f"Received: pieces={pieces}"):
        Maxout(pieces)


def test_maxout_of_an_empty_batch_is_empty():
    assert Maxout(2)(keras.ops.zeros((0, 8))).shape == (0, 4)
