import numpy as np
import pytest
from reference import cases

from keras_attn.decoding import coverage_penalty, length_penalty


@pytest.mark.parametrize("case", cases("decoding", "length-penalty"))
def test_length_penalty_is_the_reference(case):
    score = length_penalty(case["log_probability"], case["length"], case["alpha"])
    assert float(score) == pytest.approx(case["expect"], abs=1e-6)


@pytest.mark.parametrize("case", cases("decoding", "coverage-penalty"))
def test_coverage_penalty_is_the_reference(case):
    penalty = coverage_penalty([case["attention_sums"]], case["beta"])
    assert penalty.shape == (1,)
    assert float(penalty[0]) == pytest.approx(case["expect"], abs=1e-6)


def test_length_penalty_broadcasts():
    scores = length_penalty([[-1.0, -2.0]], [[1], [7]], 1.0)
    np.testing.assert_allclose(scores, [[-1.0, -2.0], [-0.5, -1.0]], rtol=1e-6)


def test_padding_costs_no_coverage():
    alone = coverage_penalty([[0.5, 1.2]], 0.2)
    padded = coverage_penalty([[0.5, 1.2, 0.0, 0.0]], 0.2)
    np.testing.assert_array_equal(alone, padded)


def test_mask_tells_a_position_left_out_from_padding():
    sums, mask = [[0.5, 0.0, 0.0], [0.5, 0.0, 0.0]], [[True, True, False], [True, False, False]]
    penalty = coverage_penalty(sums, 1.0, mask)
    np.testing.assert_allclose(penalty, [np.log(0.5) + np.log(1.1754944e-38), np.log(0.5)], 1e-5)
