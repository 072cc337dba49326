"""Bracketed trees: what is read of them, what is refused, and how they are written as tokens."""

import re

import pytest

from keras_attn.data.bracketed_trees import (
    Bracket,
    Tree,
    linearised,
    parse_tree,
    read_trees,
)
from keras_attn.data.treebanks import treebank_file
from keras_attn.errors import UserError

JOHN = "(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))"


def test_a_tree_is_its_words_its_tags_and_its_brackets_the_outer_one_first():
    tree = parse_tree(JOHN)
    assert tree.words == ("John", "has", "a", "dog", ".")
    assert tree.tags == ("NNP", "VBZ", "DT", "NN", ".")
    assert tree.brackets == (
        Bracket("S", 0, 5),
        Bracket("NP", 0, 1),
        Bracket("VP", 1, 4),
        Bracket("NP", 2, 4),
    )
    assert str(tree) == JOHN


def test_a_tree_as_tokens_has_labels_at_both_ends_and_no_word():
    assert " ".join(linearised(parse_tree(JOHN))) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
    chain = parse_tree("(S (VP (VP (VB Go))) (: --) (-LRB- -LRB-) (`` ``))")
    assert " ".join(linearised(chain)) == "(S (VP (VP XX )VP )VP : XX `` )S"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (f"( {JOHN} )", JOHN),
        (f"(ROOT {JOHN})", JOHN),
        (f"(TOP (S1 {JOHN}))", JOHN),
        ("(TOP (NP (NN a)) (. .))", "(TOP (NP (NN a)) (. .))"),
        ("(ROOT (NN a))", "(TOP (NN a))"),
        ("(NN a)", "(TOP (NN a))"),
        (
            "(S (NP-SBJ-1 (PRP It)) (VP=2 (VBZ is) (NP (-NONE- *T*-1))) (ADVP|PRT (RB on)))",
            "(S (NP (PRP It)) (VP (VBZ is)) (ADVP (RB on)))",
        ),
        ("(S (NP-SBJ (NP (-NONE- *))) (VP (VB Go)))", "(S (VP (VB Go)))"),
        ("\t(S(NP(PRP I))\u00a0(VP (VBP am)) )", "(S (NP (PRP I)) (VP (VBP am)))"),
    ],
)
def test_what_the_raw_treebank_has_beside_constituents_is_left_out(raw, clean):
    assert str(parse_tree(raw)) == clean


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(S (NP (NN a)) ", "1 of its brackets are not closed"),
        ("(S (NN a)))", "')' stands behind"),
        ("(S (NN a)) (S (NN b))", "'(' stands behind"),
        (") (S (NN a))", "begins with a closing"),
        ("word (S (NN a))", "'word' stands outside"),
        ("(S (NN a) loose)", "'loose' has no bracket of its own"),
        ("(S loose (NN a))", "'loose' shares its bracket"),
        ("(S (NN two words))", "'words' has no bracket of its own"),
        ("(S (NP) (NN a))", "(NP) is empty"),
        ("(S (() (NN a)))", "inside of it has no label"),
        ("(S ((NN a)))", "inside of it has no label"),
        ("(S (NP (-NONE- *)))", "has no word"),
        ("()", "() is empty"),
    ],
)
def test_a_line_that_is_no_tree_is_named_with_its_file_and_number(line, words, tmp_path):
    file = tmp_path / "my.trees"
    file.write_text(f"{JOHN}\n\n{line}\n")
    with pytest.raises(UserError, match=re.escape(words)) as refused:
        list(read_trees(file))
    assert f"{file}, line 3 " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_is_read_tree_by_tree_and_one_without_a_tree_is_refused(tmp_path):
    file = tmp_path / "my.trees"
    file.write_text(f"\n{JOHN}\r\n  \n(TOP (NN a))\n")
    assert [len(tree.words) for tree in read_trees(file)] == [5, 1]
    file.write_text("\n \n")
    with pytest.raises(UserError, match="has no tree"):
        list(read_trees(file))
    with pytest.raises(UserError, match="There is no file"):
        list(read_trees(tmp_path / "none.trees"))


def test_a_tree_may_be_deeper_than_the_interpreter_can_nest_calls():
    deep = "(S " * 5_000 + "(NN a)" + ")" * 5_000
    tree = parse_tree(deep)
    assert len(tree.brackets) == 5_000
    assert str(tree) == deep
    assert len(linearised(tree)) == 10_001


def test_trees_of_the_same_words_and_brackets_are_equal():
    assert parse_tree(JOHN) == parse_tree(f"(ROOT {JOHN})")
    assert parse_tree(JOHN) != parse_tree(JOHN.replace("VP", "NP"))
    assert isinstance(hash(parse_tree(JOHN)), int)
    assert Tree(("a",), ("NN",), (Bracket("NP", 0, 1),)) == parse_tree("(NP (NN a))")


def test_a_treebank_is_looked_for_where_corpora_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"train.trees looked for in .*gum_const"):
        treebank_file("gum_const", "train")
    (tmp_path / "gum_const").mkdir()
    (tmp_path / "gum_const" / "train.trees").write_text(JOHN)
    assert [tree.words[0] for tree in read_trees(treebank_file("gum_const", "train"))] == ["John"]
    with pytest.raises(ValueError, match="Received: treebank='wsj', split='train'"):
        treebank_file("wsj", "train")
