"""Brackets counted by hand, as EVALB counts them, and trees drawn."""

import pytest

from keras_attn.analysis import bracket_scores, plot_trees
from keras_attn.data.bracketed_trees import parse_tree

# Words that count: 0 John, 1 gave, 2 up, 3 a, 4 dog, 5 today.
RIGHT = (
    "(S (NP (NNP John)) (, ,) (VP (VBD gave) (PRT (RP up)) (NP (DT a) (NN dog))"
    " (NP (NN today))) (. .))"
)


def _scores(written, right=RIGHT):
    return bracket_scores([parse_tree(written)], [parse_tree(right)])


@pytest.mark.parametrize(
    ("written", "both", "number"),
    [
        (RIGHT, 6, 6),
        (RIGHT.replace("PRT", "ADVP"), 6, 6),  # the same label by EVALB's rule
        (f"(ROOT {RIGHT})", 6, 6),
        # VP 1-5 and NP 3-6 are wrong; S, NP 0-1, PRT and NP 5-6 right; NP 3-5 is missed.
        (
            "(S (NP (XX John)) (XX ,) (VP (XX gave) (PRT (XX up)) (XX a) (XX dog))"
            " (NP (NP (XX today))) (XX .))",
            4,
            6,
        ),
        # Where punctuation hangs does not matter, nor a bracket of nothing else.
        (
            "(S (NP (XX John) (XX ,)) (VP (XX gave) (PRT (XX up)) (NP (XX a) (XX dog))"
            " (NP (XX today)) (PRN (XX .))))",
            6,
            6,
        ),
        # A label over other words, and the right words with another label.
        (
            "(S (NP (XX John)) (XX ,) (PP (XX gave) (PRT (XX up)) (NP (XX a))"
            " (NP (XX dog) (XX today))) (XX .))",
            3,
            6,
        ),
        ("(TOP (XX John) (XX ,) (XX gave) (XX up) (XX a) (XX dog) (XX today) (XX .))", 0, 0),
    ],
    ids=["equal", "ADVP is PRT", "TOP", "two wrong", "punctuation", "labels", "nothing"],
)
def test_brackets_are_counted_as_by_hand(written, both, number):
    found = _scores(written)
    assert found.recall == pytest.approx(100 * both / 6)
    assert found.precision == pytest.approx(100 * both / number if number else 0.0)
    assert found.f1 == pytest.approx(200 * both / (6 + number))
    assert found.exact == (100.0 if both == number == 6 else 0.0)


def test_equal_brackets_count_each():
    twice = "(S (NP (NP (NN a))) (VP (VB b)))"
    assert _scores("(S (NP (XX a)) (VP (XX b)))", twice).recall == pytest.approx(75.0)
    assert _scores(twice, "(S (NP (NN a)) (VP (VB b)))").precision == pytest.approx(75.0)


def test_sentences_count_by_their_brackets_and_not_alike():
    right = [parse_tree(RIGHT), parse_tree("(NP (NN a) (NN b))")]
    written = [parse_tree(RIGHT), parse_tree("(VP (XX a) (XX b))")]
    found = bracket_scores(written, right)
    assert found.f1 == pytest.approx(100 * 6 / 7)
    assert found.exact == 50.0


def test_what_is_no_comparison_is_refused():
    with pytest.raises(ValueError, match="Received: 2 words and 1 in the right tree"):
        _scores("(S (XX a) (XX b))", "(S (XX a))")
    with pytest.raises(ValueError, match="Received: 0 trees for 1"):
        bracket_scores([], [parse_tree(RIGHT)])
    with pytest.raises(ValueError, match="Received: 0 trees for 0"):
        bracket_scores([], [])


def test_a_drawing_has_words_in_a_row_and_each_label_above_what_it_holds():
    trees = [parse_tree(RIGHT), parse_tree("(S (NP ($ $) (CD $x$)) (ADVP (WRB \u65e5)))")]
    figure = plot_trees(trees)
    (axes,) = figure.axes
    shown = [(text.get_text(), *text.get_position()) for text in axes.texts]
    words = [shown[place] for place in range(8)]
    assert [text for text, _, _ in words] == list(trees[0].words)
    assert len({y for _, _, y in words}) == 1
    assert [x for _, x, _ in words] == sorted(x for _, x, _ in words)
    labels = shown[8:14]
    assert [text for text, _, _ in labels] == ["S", "NP", "VP", "PRT", "NP", "NP"]
    level = [y for _, _, y in labels]
    assert level[0] > level[2] > level[1] == level[3] == level[4] == level[5] > words[0][2]
    assert labels[4][1] == pytest.approx((words[4][1] + words[5][1]) / 2)  # over "a dog"
    below = [y for _, _, y in shown[14:]]
    assert max(below) < words[0][2]  # the second tree is below the first
    with pytest.raises(ValueError, match=r"Received: trees=\[\]"):
        plot_trees([])


def test_no_line_of_a_drawing_crosses_a_label():
    figure = plot_trees([parse_tree(RIGHT)])
    (axes,) = figure.axes
    for line in axes.lines:
        (x0, x1), (y0, y1) = line.get_xdata(), line.get_ydata()
        for text in axes.texts:
            x, y = text.get_position()
            inside_x = min(x0, x1) - 0.02 <= x <= max(x0, x1) + 0.02
            assert not (inside_x and min(y0, y1) - 0.02 <= y <= max(y0, y1) + 0.02), text
