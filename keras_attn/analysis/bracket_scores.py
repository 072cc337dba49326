"""How much of a tree is right, by the rules of EVALB."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from keras_attn.data.bracketed_trees import OUTERMOST, PUNCTUATION, Tree

_SAME = {"PRT": "ADVP"}


class BracketScores(NamedTuple):
    """Labelled brackets, of all sentences together; shares in percent.

    Attributes:
        precision: of the brackets that were written, the share that is right.
        recall: of the right brackets, the share that was written.
        f1: the harmonic mean of the two.
        exact: of the sentences, the share whose brackets are all right, with none too many.

    Example:
        >>> from keras_attn.analysis import BracketScores
        >>> BracketScores(precision=50.0, recall=100.0, f1=66.7, exact=0.0).recall
        100.0
    """

    precision: float
    recall: float
    f1: float
    exact: float


def bracket_scores(written: Sequence[Tree], right: Sequence[Tree]) -> BracketScores:
    """Labelled precision, recall and F1 of trees, as EVALB counts them by its COLLINS.prm.

    A bracket is right if the other tree has one of the same label over the same words; of several
    equal ones each counts. Words that are punctuation by the tag of the right tree are taken out
    before, and so are the brackets that hold nothing else. TOP does not count, PRT is the same as
    ADVP. Tags are not scored.

    Args:
        written: trees over the same words as those of `right`.
        right: as they ought to be.

    Raises:
        ValueError: if there is no tree, as many are not given of both kinds, or two of them do not
            have as many words.

    Example:
        >>> from keras_attn.analysis.bracket_scores import bracket_scores
        >>> from keras_attn.data.bracketed_trees import parse_tree
        >>> right = parse_tree("(S (NP (PRP I)) (VP (VBP am) (ADVP (RB here))) (. .))")
        >>> flat = parse_tree("(S (NP (XX I)) (XX am) (XX here) (. .))")
        >>> bracket_scores([flat], [right])
        BracketScores(precision=100.0, recall=50.0, f1=66.66666666666667, exact=0.0)

    Reference:
        Collins and Sekine's EVALB, https://nlp.cs.nyu.edu/evalb
    """
    if not right or len(written) != len(right):
        raise ValueError(
            "Give a tree for each right one, and one at least. "
            f"Received: {len(written)} trees for {len(right)}"
        )
    found = Counter()
    for one, other in zip(written, right, strict=True):
        mine, wanted = counted_brackets(one, other.tags), counted_brackets(other, other.tags)
        found["both"] += (mine & wanted).total()
        found["written"] += mine.total()
        found["right"] += wanted.total()
        found["exact"] += mine == wanted
    precision = _percent(found["both"], found["written"])
    recall = _percent(found["both"], found["right"])
    f1 = _percent(2 * found["both"], found["written"] + found["right"])
    return BracketScores(precision, recall, f1, _percent(found["exact"], len(right)))


def counted_brackets(tree: Tree, tags: Sequence[str]) -> Counter:
    """The brackets that count, over the words that count.

    Args:
        tree: whose brackets these are.
        tags: by which a word is punctuation, one for each word.
    """
    if len(tree.words) != len(tags):
        raise ValueError(
            "Trees are compared over the same words. "
            f"Received: {len(tree.words)} words and {len(tags)} in the right tree"
        )
    before = [0]  # how many words that count stand before each
    for tag in tags:
        before.append(before[-1] + (tag not in PUNCTUATION))
    spans = (
        (_SAME.get(label, label), before[start], before[end])
        for label, start, end in tree.brackets
        if label != OUTERMOST
    )
    return Counter((label, start, end) for label, start, end in spans if start < end)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
