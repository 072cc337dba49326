"""Measures on alignments made by hand."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.analysis import crossings, joined, mass_on, near_diagonal, of_words
from keras_attn.analysis.shuffled_attention import shuffled_positions


def test_the_share_counts_the_mass_on_the_positions_and_divides_by_all_of_it():
    alignment = np.array([[0.75, 0.25, 0.0], [0.0, 0.5, 0.0]])
    positions = np.array([[True, False, True], [False, True, True]])
    assert mass_on(alignment, positions) == pytest.approx(1.25 / 1.5)
    assert mass_on(np.zeros((2, 3)), positions) == 0.0
    assert mass_on(np.zeros((0, 3)), positions[:0]) == 0.0


def test_positions_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"Received: alignment.shape=\(2, 3\)"):
        mass_on(np.ones((2, 3)), np.ones((3,), bool))


def test_the_diagonal_joins_the_first_tokens_and_the_last_ones():
    found = near_diagonal((3, 5), within=1).astype(int)
    np.testing.assert_array_equal(found, [[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 1, 1]])
    np.testing.assert_array_equal(near_diagonal((4, 4), within=0), np.eye(4, dtype=bool))
    np.testing.assert_array_equal(near_diagonal((1, 3), within=1), [[True, True, False]])
    assert near_diagonal((0, 3)).shape == (0, 3)


def test_words_sum_over_what_is_looked_at_and_average_over_what_looks():
    source, target, alignment = of_words(
        ["▁a", "▁sun", "glasses", "</s>"],
        ["▁lune", "ttes", "▁une", "</s>"],
        np.array(
            [[0.1, 0.4, 0.4, 0.1], [0.3, 0.0, 0.6, 0.1], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
        ),
    )
    assert (source, target) == (["a", "sunglasses"], ["lunettes", "une"])
    np.testing.assert_allclose(alignment, [[0.2, 0.7], [1.0, 0.0]])


def test_an_answer_without_a_word_has_an_alignment_without_a_row():
    source, target, alignment = of_words(["▁a", "</s>"], ["</s>"], np.array([[0.0, 1.0]]))
    assert (source, target, alignment.shape) == (["a"], [], (0, 1))
    assert crossings(alignment) == []
    assert joined(alignment) == []


def test_neighbours_that_change_places_cross_and_no_others_do():
    alignment = np.array(
        [[0.9, 0.1, 0.0, 0.0], [0.0, 0.2, 0.8, 0.0], [0.1, 0.6, 0.3, 0.0], [0.0, 0.0, 0.1, 0.9]]
    )
    assert crossings(alignment) == [(1, 2, 1)]
    assert crossings(alignment, least=0.7) == []  # the third word does not look so surely
    assert crossings(np.eye(4)) == []
    assert crossings(np.eye(3)[::-1]) == [(0, 2, 1), (1, 1, 0)]


def test_a_word_that_might_look_at_two_is_refused():
    with pytest.raises(ValueError, match=r"Received: least=0\.4"):
        crossings(np.eye(2), least=0.4)


def test_two_words_become_one_only_if_nobody_else_looks_at_them():
    alignment = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.1, 0.9]])
    assert joined(alignment) == [(0, 0)]
    assert joined(alignment[:2]) == [(0, 0), (1, 2)]
    assert joined(np.array([[0.8, 0.2]])) == []


def test_shuffling_moves_real_positions_and_leaves_the_padding_behind():
    lengths = np.array([8, 3, 1])
    values = np.arange(8.0)[None, :, None] + np.zeros((3, 8, 1))
    mask = np.arange(8) < lengths[:, None]
    found = shuffled_positions(tf.constant(values), tf.constant(mask), seed=5).numpy()[:, :, 0]
    for row, length in zip(found, lengths, strict=True):
        assert sorted(row[:length]) == list(range(length))
    assert not np.array_equal(found[0], values[0, :, 0])
