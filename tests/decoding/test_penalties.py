import numpy as np
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.decoding import beam_search, coverage_penalty, length_penalty


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


def test_the_coverage_of_a_cut_example_does_not_grow_while_others_run_on():
    """Both examples can only go on; the first is cut at 2 tokens, the second at 6."""

    def step(tokens, state):
        rows = tf.shape(tokens)[0]
        logits = tf.tile(tf.math.log([[0.0, 0.0, 0.3, 0.7]]), [rows, 1])
        return logits, state, tf.fill([rows, 3], 0.2)

    def best(max_length):
        found = beam_search(
            step, {}, tf.size(max_length), 0, 1, max_length, beam_width=2, coverage_penalty=0.5
        )
        return found.scores[:, 0]

    alone = np.concatenate([best([2]), best([6])])
    np.testing.assert_allclose(alone[0], 2 * np.log(0.7) + 3 * 0.5 * np.log(0.4), rtol=1e-5)
    np.testing.assert_allclose(best([2, 6]), alone, rtol=1e-5)
