import numpy as np
import pytest
import reference
import tensorflow as tf

from keras_attn.ops import filterbanks, gaussian_filterbank

(CASE,) = (case.values[0] for case in reference.cases("vision", "draw-filterbank"))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_filterbanks_are_the_reference_numbers(jit_compile):
    function = tf.function(gaussian_filterbank, jit_compile=jit_compile)
    for axis, name in (("x", "Fx"), ("y", "Fy")):
        bank = function(
            tf.constant([CASE[f"center_{axis}"]]), tf.constant([CASE["stride"]]),
            tf.constant([CASE["variance"]]), CASE["grid"], CASE["image_size"],
        )  # fmt: skip
        np.testing.assert_allclose(bank[0], CASE["expect"][name], atol=1e-6)


@pytest.mark.parametrize("center", [-1e4, -3.0, 3.0, 1e4])
def test_rows_add_up_to_one_wherever_the_window_lies(center):
    bank = gaussian_filterbank([center], [1.5], [1e-4], grid=4, size=7)
    np.testing.assert_allclose(tf.reduce_sum(bank, axis=-1), np.ones((1, 4)), atol=1e-6)


def test_numbers_of_zero_span_the_whole_image():
    rows, columns, stride, intensity = filterbanks(tf.constant([[0.0, 0, -9, 0, 0]]), 5, 9, 5)
    assert tf.argmax(rows[0], axis=-1).numpy().tolist() == [0, 2, 4, 6, 8]
    assert float(stride[0]) == 2.0
    assert float(intensity[0]) == 1.0
    assert columns.shape == (1, 5, 5)
