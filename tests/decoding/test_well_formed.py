"""Searches that may write trees only: against a plain constrained search, in every mode."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf
from plain_search import chain, plain_beam_search

from keras_attn.data.bracketed_trees import linearised, parse_tree
from keras_attn.decoding import BracketTokens, WellFormed, beam_search, greedy_search, sample

START, END = 1, 2
TOKENS = BracketTokens(opening=[3, 5], closing=[4, 6], leaves=[7, 8], vocabulary_size=9)
LENGTH, DEPTH = 11, 3
NAMES = {3: "(A", 4: ")A", 5: "(B", 6: ")B", 7: "XX", 8: "."}


class _Chain:
    """A model whose next token depends on the last one, and on the sentence's own table."""

    def encode(self, inputs):
        return {"table": inputs["table"]}

    def initial_state(self, memory):
        return {"memory": memory, "steps": tf.zeros([tf.shape(memory["table"])[0]], tf.int32)}

    def step(self, tokens, state):
        logits = tf.math.log(tf.gather(state["memory"]["table"], tokens, batch_dims=1))
        return logits, {**state, "steps": state["steps"] + 1}


def _tables(count, seed):
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(count, 9, 9)) ** 2 + 1e-3
    weights[:, :, END] *= 3  # a model that likes to stop too early
    return weights / weights.sum(-1, keepdims=True)


def _inputs(tables, words):
    return {
        "table": tf.constant(tables, tf.float32),
        "source_lengths": tf.constant(words, tf.int32) + 1,
    }


def _searched(search, tables, words, **options):
    model = WellFormed(_Chain(), TOKENS, LENGTH, DEPTH)
    state = model.initial_state(model.encode(_inputs(tables, words)))
    return search(model.step, state, len(words), START, END, LENGTH, **options)


def _goes_on(tokens, words):
    """The tokens that may follow, by counting, from the beginning each time."""
    inside, left, is_empty = [], words, False
    for token in tokens:
        is_empty = token in (3, 5)
        if is_empty:
            inside.append(token)
        elif token in (4, 6):
            inside.pop()
        elif token in (7, 8):
            left -= 1
    if not inside and not left:
        return {END}
    found, room = set(), LENGTH - len(tokens)
    if left and (not inside or (len(inside) < DEPTH and left + len(inside) + 3 <= room)):
        found |= {3, 5}
    if left and inside:
        found |= {7, 8}
    if inside and not is_empty and (len(inside) > 1 or not left):
        found.add(inside[-1] + 1)
    return found


def _plain_model(table, words):
    """The chain with the probability shared among what may follow."""
    plain = chain(table, START)

    def next_of(tokens):
        if END in tokens:
            return [-math.inf] * 9, None
        allowed = _goes_on(tokens, words)
        kept = [p if token in allowed else -math.inf for token, p in enumerate(plain(tokens)[0])]
        total = math.log(sum(math.exp(p) for p in kept))
        return [p - total for p in kept], None

    return next_of


def _is_tree(tokens, words):
    """Whether the tokens are those of a tree over so many words, and then the end."""
    names = [NAMES.get(token, "end") for token in tokens]
    parts = [")" if name[0] == ")" else name if name[0] == "(" else f"({name} w)" for name in names]
    try:
        tree = parse_tree(" ".join(parts[:-1]))
    except ValueError:
        return False
    return [*linearised(tree), "end"] == names and len(tree.words) == words


@pytest.mark.parametrize("beam_width", [1, 4])
def test_the_best_trees_are_those_of_a_plain_constrained_search(beam_width):
    words = [1, 2, 3, 4, 5, 0, 8, 3]
    tables = _tables(len(words), seed=5)
    if beam_width == 1:
        found = _searched(greedy_search, tables, words)
    else:
        found = _searched(beam_search, tables, words, beam_width=beam_width)
    for row, number in enumerate(words):
        best = plain_beam_search(_plain_model(tables[row], number), END, LENGTH, beam_width)
        length = found.lengths.numpy()[row, 0]
        assert found.tokens.numpy()[row, 0, :length].tolist() == best[0].tokens
        np.testing.assert_allclose(found.scores[row, 0], best[0].score, atol=1e-4)


def test_every_answer_is_a_tree_though_the_model_would_seldom_write_one():
    words = list(itertools.islice(itertools.cycle(range(1, 9)), 64))
    tables = _tables(64, seed=6)
    searches = [
        _searched(greedy_search, tables, words),
        _searched(beam_search, tables, words, beam_width=3, n_best=1),
        _searched(sample, tables, words, seed=3),
    ]
    for found in searches:
        for row, number in enumerate(words):
            tokens = found.tokens.numpy()[row, 0, : found.lengths.numpy()[row, 0]].tolist()
            assert _is_tree(tokens, number), tokens
    free = greedy_search(
        _Chain().step, _Chain().initial_state({"table": tf.constant(tables, tf.float32)}), 64,
        START, END, LENGTH,
    )  # fmt: skip
    answers = zip(free.tokens.numpy()[:, 0], free.lengths.numpy()[:, 0], words, strict=True)
    assert not all(_is_tree([*row[:length]], number) for row, length, number in answers)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "XLA"])
def test_a_compiled_search_writes_the_same_trees(jit_compile):
    words, tables = [2, 5, 1], _tables(3, seed=7)
    eager = _searched(beam_search, tables, words, beam_width=3)
    model = WellFormed(_Chain(), TOKENS, LENGTH, DEPTH)

    @tf.function(jit_compile=jit_compile)
    def run(inputs):
        state = model.initial_state(model.encode(inputs))
        return beam_search(model.step, state, 3, START, END, LENGTH, beam_width=3)

    found = run(_inputs(tables, words))
    np.testing.assert_array_equal(found.tokens, eager.tokens)
    np.testing.assert_allclose(found.scores, eager.scores, atol=1e-4)


def test_a_batch_may_be_empty_and_a_sentence_without_words_ends_at_once():
    found = _searched(greedy_search, _tables(1, seed=1), [0])
    assert found.tokens.numpy()[0, 0, : found.lengths.numpy()[0, 0]].tolist() == [END]
    model = WellFormed(_Chain(), TOKENS, LENGTH, DEPTH)
    state = model.initial_state(model.encode(_inputs(_tables(1, seed=1)[:0], [])))
    logits, state, attention = model.step(tf.zeros([0], tf.int32), state)
    assert (logits.shape, attention) == ((0, 9), None)


@pytest.mark.parametrize(
    ("change", "length", "depth", "words"),
    [
        ({"leaves": [7, 7]}, 9, 3, "does one thing"),
        ({"leaves": [4]}, 9, 3, "does one thing"),
        ({"leaves": [END]}, 9, 3, "does one thing"),
        ({"leaves": [9]}, 9, 3, "is one of the vocabulary"),
        ({"leaves": []}, 9, 3, "a leaf and a label"),
        ({"closing": [4]}, 9, 3, "must open and close"),
        ({}, 3, 3, "Received: max_length=3"),
        ({}, 9, 0, "Received: max_depth=0"),
    ],
)
def test_what_makes_no_trees_is_refused(change, length, depth, words):
    with pytest.raises(ValueError, match=words):
        WellFormed(_Chain(), TOKENS._replace(**change), length, depth)
