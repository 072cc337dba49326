"""What a model wrote made into trees: by the rules, one by one, and as a plain reading does."""

import random

import pytest
import tensorflow as tf

from keras_attn.data.bracketed_trees import linearised, parse_tree
from keras_attn.text.bracket_repair import REPAIRS, mended_trees


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
def _mended(written, sentences):
    return mended_trees(tf.strings.split(written), tf.strings.split(sentences))


@pytest.mark.parametrize(
    ("written", "words", "tree", "repairs"),
    [
        ("(S (NP XX )NP (VP XX )VP . )S", "a b .", "(S (NP (XX a)) (VP (XX b)) (. .))", {}),
        ("XX (NP XX )NP", "a b", "(TOP (XX a) (NP (XX b)))", {"outermost bracket added": 1}),
        (
            "(S (NP XX )VP XX )NP",
            "a b",
            "(S (NP (XX a)) (XX b))",
            {"label of a closing bracket changed": 2},
        ),
        (
            "(S XX )S XX )S",
            "a b",
            "(S (XX a) (XX b))",
            {"closing bracket removed": 1},
        ),
        (
            "(S (NP (VP )VP )NP XX (PP )PP )S",
            "a",
            "(S (XX a))",
            {"empty bracket removed": 3},
        ),
        (
            "(S XX (NP XX . )NP )S",
            "a",
            "(S (XX a))",
            {"leaf removed": 2, "empty bracket removed": 1},
        ),
        ("(S (NP XX )NP )S", "a b c", "(S (NP (XX a)) (XX b) (XX c))", {"leaf added": 2}),
        (
            "(S (NP (NP XX",
            "a b",
            "(S (NP (NP (XX a))) (XX b))",
            {"leaf added": 1, "bracket closed at the end": 3},
        ),
        (
            "(S XX (NP (VP",
            "a",
            "(S (XX a))",
            {"empty bracket removed": 2, "bracket closed at the end": 1},
        ),
        ("", "a b", "(TOP (XX a) (XX b))", {"outermost bracket added": 1, "leaf added": 2}),
        (")S <unk>", "a", "(TOP (<unk> a))",
         {"outermost bracket added": 1, "closing bracket removed": 1}),
        ("(S XX )S", "", "", {}),
    ],
)  # fmt: skip
def test_each_rule_mends_and_counts_what_it_says(written, words, tree, repairs):
    found = _mended(tf.constant([written]), tf.constant([words]))
    assert found.texts.numpy()[0].decode() == tree
    assert found.repairs.numpy()[0].tolist() == [repairs.get(name, 0) for name in REPAIRS]


def _read_plainly(tokens, words):
    """The rules as nested lists: a tree in brackets and the number of repairs."""
    words = list(words)
    has_root = is_open = bool(tokens) and tokens[0][0] == "("
    root = [tokens[0][1:] if has_root else "TOP"]
    tokens, repairs = tokens[has_root:], int(not has_root)
    inside = [root]
    for number, token in enumerate(tokens):
        if token[0] == "(":
            inside.append([token[1:]])
            inside[-2].append(inside[-1])
        elif token[0] != ")":
            if words:
                inside[-1].append(f"({token} {words.pop(0)})")
            else:
                repairs += 1
        elif len(inside) > 1:
            closed = inside.pop()
            if len(closed) == 1:
                inside[-1].remove(closed)
                repairs += 1
            else:
                repairs += closed[0] != token[1:]
        elif number == len(tokens) - 1 and has_root:
            repairs += root[0] != token[1:]
            is_open = False
        else:
            repairs += 1
    for closed in reversed(inside[1:]):
        repairs += 1
        if len(closed) == 1:
            inside[inside.index(closed) - 1].remove(closed)
    repairs += len(words)
    root += [f"(XX {word})" for word in words]
    return _bracketed(root), repairs + is_open


def _bracketed(node):
    if isinstance(node, str):
        return node
    return f"({node[0]} {' '.join(map(_bracketed, node[1:]))})"


def test_whatever_is_written_becomes_the_tree_that_a_plain_reading_makes():
    draw = random.Random(3)
    tokens = ["(S", "(NP", ")S", ")NP", "XX", "."]
    written = [draw.choices(tokens, k=draw.randrange(9)) for _ in range(400)]
    sentences = [[f"w{number}" for number in range(draw.randrange(1, 5))] for _ in written]
    found = _mended(
        tf.constant(list(map(" ".join, written))), tf.constant(list(map(" ".join, sentences)))
    )
    for row, (given, words) in enumerate(zip(written, sentences, strict=True)):
        text, repairs = _read_plainly(given, words)
        assert found.texts.numpy()[row].decode() == text, given
        assert found.repairs.numpy()[row].sum() == repairs, given
        assert parse_tree(text).words == tuple(words)


def test_a_well_formed_tree_comes_back_as_it_was_and_no_batch_is_too_small():
    tree = parse_tree("(S (NP (NP (XX I)) (PP (XX in) (NP (XX it)))) (`` ``) (VP (XX go)) (. .))")
    written = tf.constant([" ".join(linearised(tree)), "(S"])
    texts, repairs = _mended(written, tf.constant([" ".join(tree.words), "a"]))
    assert texts.numpy()[0].decode() == str(tree)
    assert not repairs.numpy()[0].any()
    texts, repairs = _mended(tf.zeros([0], tf.string), tf.zeros([0], tf.string))
    assert (texts.shape, repairs.shape) == ((0,), (0, len(REPAIRS)))
