import numpy as np
import pytest

from keras_attn.analysis import plot_heads, score_heads
from keras_attn.analysis.heat_maps import LARGEST

LENGTHS = [5, 9, 12, 7] * 50


def _sentence(generator, length):
    return generator.integers(0, 6, length).tolist()


def _attending(scores, visible):
    """Softmax of the scores over what is visible, (T, S)."""
    weights = np.where(visible, np.exp(scores), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _heads(tokens, offset):
    """A head at an offset, one that copies, a uniform one and a random one: (4, T, T)."""
    size = len(tokens)
    distance = np.arange(size)[None] - np.arange(size)[:, None]
    visible = np.ones((size, size), bool)
    same = np.equal.outer(tokens, tokens) & (distance != 0)
    random = np.random.default_rng(size).normal(size=(size, size))
    return np.stack([
        _attending(6.0 * (distance == offset), visible),
        _attending(8.0 * same, visible),
        _attending(0.1 * random, visible),
        _attending(4.0 * random, visible),
    ])  # fmt: skip


@pytest.mark.parametrize("offset", [-1, 1, 3, 0])
def test_constructed_heads_are_told_apart(offset):
    generator = np.random.default_rng(0)
    sentences = [_sentence(generator, length) for length in LENGTHS]
    scores = score_heads((tokens, tokens, _heads(tokens, offset)) for tokens in sentences)
    assert [score.kind for score in scores] == ["positional", "copying", "uniform", "other"]
    assert scores[0].offset == offset
    assert scores[0].positional > 0.9
    assert scores[3].positional < 0.5


def test_scores_are_means_over_the_queries_that_have_such_a_key():
    weights = np.array([[[1.0, 0, 0], [0.25, 0.75, 0], [0.1, 0.6, 0.3]]])  # causal
    (score,) = score_heads([("aba", "aba", weights)], longest_offset=1)
    assert score.offset == 0
    assert score.positional == pytest.approx((1 + 0.75 + 0.3) / 3, abs=1e-6)
    assert score.copying == pytest.approx(0.1, abs=1e-6)  # the first "a" seen from the second
    entropies = [
        -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / np.log(2),
        -(0.1 * np.log(0.1) + 0.6 * np.log(0.6) + 0.3 * np.log(0.3)) / np.log(3),
    ]
    assert score.uniform == pytest.approx(np.mean(entropies), abs=1e-6)


def test_a_distance_that_hardly_occurs_decides_nothing():
    size = 6
    weights = np.full((1, size, size), 1 / size)
    weights[0, 0] = [0, 0, 0, 0, 0, 1]  # all that is ever at the distance 5
    (score,) = score_heads([("abcdef", "abcdef", weights)])
    assert score.kind != "positional"


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3)], ids=["no heads", "other lengths"])
def test_weights_that_do_not_fit_their_tokens_are_refused(shape):
    for call in (
        lambda: score_heads([("ab", "ab", np.zeros(shape))]),
        lambda: plot_heads("ab", "ab", [np.zeros(shape)]),
    ):
        with pytest.raises(ValueError, match=r"Received: weights\.shape="):
            call()


def test_nothing_to_score_or_plot_is_refused():
    with pytest.raises(ValueError, match=r"Received: examples=\[\]"):
        score_heads([])
    with pytest.raises(ValueError, match=r"Received: blocks=\[\]"):
        plot_heads("ab", "ab", [])


def test_the_grid_has_every_head_with_its_tokens_and_its_kind():
    tokens = list("abacus")
    blocks = [_heads(tokens, -1), _heads(tokens, 1)[:2]]
    scores = [score_heads([(tokens, tokens, weights)]) for weights in blocks]
    figure = plot_heads(tokens, tokens, blocks, scores)
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == 6
    np.testing.assert_array_equal(shown[1].images[0].get_array(), blocks[0][1])
    assert shown[0].get_title().startswith("block 1, head 1\npositional -1: 0.9")
    assert [label.get_text() for label in shown[0].get_yticklabels()] == tokens
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in shown]
    assert labels == [("", "query"), *[("", "")] * 3, ("key", "query"), ("key", "")]


def test_every_head_has_a_scale_of_its_own_that_its_bar_says():
    weights = np.stack([np.eye(4), np.full((4, 4), 0.25)])
    figure = plot_heads("abcd", "abcd", [weights])
    sharp, diffuse = (axes.images[0] for axes in figure.axes if axes.images)
    assert (sharp.get_clim(), diffuse.get_clim()) == ((0, 1), (0, 0.25))
    bars = [image.colorbar.ax for image in (sharp, diffuse)]
    assert [bar.get_yticklabels()[-1].get_text() for bar in bars] == ["1", "0.25"]
    assert [bar.get_ylabel() for bar in bars] == ["", "weight"]


def test_the_grid_keeps_to_its_bounds_for_long_sentences():
    tokens = [f"▁word{n}" for n in range(150)]
    weights = np.full((4, 150, 150), 1 / 150)
    figure = plot_heads(tokens, tokens, [weights] * 4)
    width, height = figure.get_size_inches()
    assert width <= LARGEST[0]
    assert height <= LARGEST[1]
    labels = figure.axes[0].get_yticklabels()
    assert 10 < len(labels) < 150
    assert labels[0].get_text() == "word0"


def test_a_short_sentence_keeps_all_its_labels_however_many_heads_there_are():
    tokens = list("abcdefghijkl")
    figure = plot_heads(tokens, tokens, [np.full((24, 12, 12), 1 / 12)])
    lowest = figure.axes[0]
    for labels in (lowest.get_xticklabels(), lowest.get_yticklabels()):
        assert [label.get_text() for label in labels] == tokens
