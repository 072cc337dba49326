import numpy as np
import pytest

from keras_attn.analysis import plot_curves


def _history(steps=500, scale=1.0):
    entries = []
    for step in range(1, steps + 1):
        entries.append(
            {"step": step, "loss": scale / step, "learning_rate": 0.1, "gradient_norm": None}
        )
        if step % 100 == 0:
            entries.append({"step": step, "minutes": 1.0, "bleu": step / 10})
    return [*entries, {"step": steps, "bleu": 60.0, "averaged": 5}]


def test_each_quantity_has_a_panel_and_each_run_a_colour():
    figure = plot_curves({"one": _history(), "two": _history(50, 2.0)})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["training loss", "bleu", "learning rate"]  # no norm was a number
    loss, bleu, _ = figure.axes
    noisy, smooth, short = loss.get_lines()
    assert len(noisy.get_xdata()) == 500
    assert 100 < len(smooth.get_xdata()) < 200
    assert smooth.get_color() == noisy.get_color() != short.get_color()
    np.testing.assert_allclose(smooth.get_ydata()[-1], 1 / 498.5, rtol=1e-2)
    points, star, *_ = bleu.get_lines()
    np.testing.assert_array_equal(points.get_ydata(), [10, 20, 30, 40, 50])
    assert (star.get_xdata(), star.get_ydata(), star.get_marker()) == ([500], [60.0], "*")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    (star_name,) = bleu.get_legend().get_texts()
    assert star_name.get_text() == "of averaged weights"
    assert loss.get_legend() is None


def test_many_quantities_make_more_columns():
    entries = [{"step": 1, **{f"metric {n}": 1.0 for n in range(32)}}]
    width, height = plot_curves({"one": entries}).get_size_inches()
    assert height < 25
    assert width < 25


def test_more_runs_than_colours_are_told_apart_in_the_legend():
    figure = plot_curves({f"run {n}": [{"step": 1, "loss": 1.0}] for n in range(25)})
    handles = figure.legends[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in handles}) == 25
    drawn = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert drawn == [(line.get_color(), line.get_linestyle()) for line in handles]


def test_a_history_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"Received: histories of \['one'\]"):
        plot_curves({"one": []})
