import keras
import numpy as np
import pytest

from keras_attn.analysis import plot_cell_states, states_over_time
from keras_attn.layers import GRU, LSTM


@pytest.mark.parametrize("make", [LSTM, GRU, keras.layers.SimpleRNN])
def test_states_are_those_of_the_layer(make):
    layer = make(3, return_sequences=True, return_state=True)
    sequence = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    outputs, *states = layer(sequence[None])
    found, memories = states_over_time(layer.cell, sequence)
    np.testing.assert_allclose(found, outputs[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memories[-1], states[-1][0], rtol=1e-5, atol=1e-6)
    assert memories.shape == (5, 3)


def test_the_plot_shows_the_cells_that_change_at_the_marks():
    marks = np.array([0, 1, 0, 0])
    cells = np.stack([[0, 0, 0, 5], [0, 2, 2, 2]], axis=1).astype("float32")  # (T, 2)
    figure = plot_cell_states([marks], [cells], [np.arange(4)], most=1)
    left, right = figure.axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [0, 2, 2, 2])
    np.testing.assert_array_equal(right.lines[0].get_ydata(), np.arange(4))
    assert left.lines[1].get_xdata() == [1, 1]
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["1"]
    assert (left.get_ylabel(), right.get_ylabel()) == ("state of the cell", "answer after step $t$")
    assert "step" in left.get_xlabel()


def test_many_sequences_stand_side_by_side():
    many = [np.zeros(3)] * 21, [np.zeros((3, 1))] * 21, [np.arange(3)] * 21
    figure = plot_cell_states(*many)
    assert len(figure.axes) == 42
    assert tuple(figure.get_size_inches()) == pytest.approx((30, 2.4 * 7))
    assert sum("step" in axes.get_xlabel() for axes in figure.axes) == 6


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="Received: lengths="):
        plot_cell_states([], [], [])
    with pytest.raises(ValueError, match="Received: lengths="):
        plot_cell_states([np.zeros(3)], [np.zeros((2, 1))], [np.zeros(3)])
