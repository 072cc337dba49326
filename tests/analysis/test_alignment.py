import numpy as np
import pytest

from keras_attn.analysis import plot_alignments


def test_every_example_is_a_heat_map_with_its_tokens():
    examples = [
        (["a", " ", "b"], ["x", "y"], np.array([[0.9, 0.1, 0], [0, 0.2, 0.8]])),
        (["c"], ["z"], np.array([[1.0]])),
    ]
    figure = plot_alignments(examples)
    first, second = figure.axes[:2]
    assert [label.get_text() for label in first.get_xticklabels()] == ["a", "␣", "b"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["x", "y"]
    np.testing.assert_array_equal(first.images[0].get_array(), examples[0][2])
    np.testing.assert_array_equal(second.images[0].get_array(), examples[1][2])


def test_an_alignment_that_does_not_fit_its_tokens_is_refused():
    with pytest.raises(ValueError, match=r"\(1, 2\)\. Received: shape=\(2, 1\)"):
        plot_alignments([(["a", "b"], ["x"], np.zeros((2, 1)))])


def test_nothing_to_plot_is_refused():
    with pytest.raises(ValueError, match=r"Received: examples=\[\]"):
        plot_alignments([])
