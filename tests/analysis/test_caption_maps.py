"""Maps of attention over the image, a word each."""

import numpy as np
import pytest

from keras_attn.analysis import plot_captions
from keras_attn.analysis.caption_maps import lit


def test_an_image_is_bright_where_the_model_looked_and_dark_elsewhere():
    weights = np.zeros((2, 3))
    weights[1, 0] = 0.9
    white, black = (lit(np.full((20, 30, 1), value), weights) for value in (1.0, 0.0))
    assert white.shape == (20, 30, 1)
    assert white[15, 4] == pytest.approx(1.0, abs=0.06)
    assert white[:8, 18:].max() == pytest.approx(0.25)
    assert black[15, 4] == pytest.approx(0.35, abs=0.03)
    assert black[:8, 18:].max() == 0
    np.testing.assert_allclose(lit(np.ones((4, 4, 3)), np.zeros((1, 1))), 0.25)


def test_each_word_has_its_map_and_a_long_caption_goes_on_in_the_next_row():
    image, maps = np.random.default_rng(0).uniform(size=(8, 8, 3)), np.full((12, 2, 2), 0.25)
    words = [f"$word{number}" for number in range(11)] + ["</s>"]
    figure = plot_captions([(image, words, maps), (image[..., :1], ["one"], maps[:1])])
    drawn = {axes.get_title(): axes for axes in figure.axes if axes.get_images()}
    assert len([axes for axes in figure.axes if axes.get_images()]) == 13 + 2
    assert set(words) <= set(drawn)
    found = drawn["$word3"].get_images()[0].get_array()
    np.testing.assert_allclose(found, 0.35 + 0.65 * image)  # an even map is light everywhere
    rows = {round(axes.get_position().y0, 3) for axes in figure.axes}
    assert len(rows) == 3


def test_what_cannot_be_drawn_is_said_in_a_sentence():
    image, maps = np.zeros((4, 4, 1)), np.zeros((2, 2, 2))
    for captions, sentence in (
        ([], "no caption"),
        ([(image, ["one"], maps)], "a map, .*1 words, maps.shape="),
        ([(image[..., 0], ["a", "b"], maps)], "1 or 3 channels.*image.shape="),
    ):
        with pytest.raises(ValueError, match=rf"{sentence}.*"):
            plot_captions(captions)
