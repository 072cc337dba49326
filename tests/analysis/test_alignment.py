import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from keras_attn.analysis import plot_alignments
from keras_attn.analysis.heat_maps import LARGEST


def _example(columns, rows, largest=1.0):
    weights = np.full((rows, columns), largest / 4)
    weights[0, 0] = largest
    return [f"▁s{n}" for n in range(columns)], [f"▁t{n}" for n in range(rows)], weights


def _maps(figure):
    return [axes for axes in figure.axes if axes.images]


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


def test_a_map_says_what_is_read_and_what_is_written():
    for axes in _maps(plot_alignments([_example(3, 2), _example(2, 4)])):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("read: source", "written: target")
        assert axes.xaxis.get_label_position() == "top"


@pytest.mark.parametrize("largest", [0.9, 0.02, 0.0])
def test_the_scale_of_a_map_is_its_own_and_its_bar_says_it(largest):
    sharp, diffuse = _maps(plot_alignments([_example(3, 2), _example(30, 2, largest)]))
    assert sharp.images[0].get_clim() == (0, 1)
    top = largest or 1.0
    assert diffuse.images[0].get_clim() == (0, top)
    bar = diffuse.images[0].colorbar.ax
    labels = [label.get_text() for label in bar.get_yticklabels()]
    assert labels == ["0", f"{top / 2:.2g}", f"{top:.2g}"]
    assert bar.get_ylabel() == "weight"


def test_an_answer_of_no_token_and_weights_that_are_no_numbers_are_drawn():
    empty, unknown = _maps(
        plot_alignments([(["a"], [], np.zeros((0, 1))), (["a"], ["b"], np.array([[np.nan]]))])
    )
    assert list(empty.get_yticklabels()) == []
    assert unknown.images[0].get_clim() == (0, 1)


@pytest.mark.parametrize(
    "examples",
    [[_example(400, 300)], [_example(12, 9)] * 24, [_example(1, 1)]],
    ids=["long", "many", "tiny"],
)
def test_a_picture_keeps_to_its_bounds_and_everything_is_in_it(examples):
    figure = plot_alignments(examples)
    width, height = figure.get_size_inches()
    assert width <= LARGEST[0]
    assert height <= LARGEST[1]
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in _maps(figure)]
    for number, box in enumerate(boxes):
        assert min(box.x0, box.y0) >= 0
        assert max(box.x1 / width, box.y1 / height) <= figure.dpi
        assert not any(box.overlaps(other) for other in boxes[:number])


def test_short_and_long_sentences_fill_the_frame_together():
    figure = plot_alignments([_example(13, 11), _example(24, 11), _example(7, 11)])
    positions = [axes.get_position() for axes in _maps(figure)]
    assert len({round(each.x0, 6) for each in positions}) == 1
    assert len({round(each.x1, 6) for each in positions}) == 1
    assert positions[0].width > 0.8
    assert sum(each.height for each in positions) > 0.75
