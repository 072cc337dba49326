"""Beam search against searches that can be read: `plain_search`."""

import chains
import numpy as np
import plain_search
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.decoding import beam_search

START, END = 0, 1


@pytest.mark.parametrize("case", cases("decoding", "beam"))
def test_reference_case_is_found(case):
    state = chains.chain_state([case["transition"]])
    found = beam_search(
        chains.chain_step,
        state,
        1,
        case["start_id"],
        case["end_id"],
        case["max_length"],
        case["beam_width"],
        case["length_penalty"],
    )
    for slot, expected in enumerate(case["expect"]):
        length = int(found.lengths[0, slot])
        assert found.tokens[0, slot, :length].numpy().tolist() == expected["tokens"]
        assert float(found.scores[0, slot]) == pytest.approx(expected["score"], abs=1e-5)
        log_probability = float(found.log_probabilities[0, slot])
        assert log_probability == pytest.approx(expected["log_probability"], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0, -0.7])
@pytest.mark.parametrize(
    ("size", "max_length", "count"), [(2, 6, 40), (3, 6, 40), (4, 5, 30), (5, 3, 40), (6, 6, 4)]
)
def test_wide_beam_is_exhaustive(size, max_length, count, alpha):
    rng = np.random.default_rng(size * 100 + max_length)
    transitions = chains.random_chains(rng, count, size)
    width = (size - 1) ** (max_length - 1)
    found = beam_search(
        chains.chain_step,
        chains.chain_state(transitions),
        count,
        START,
        END,
        max_length,
        width,
        alpha,
        n_best=min(width, 25),
    )
    for example, transition in enumerate(transitions):
        next_of = plain_search.chain(transition, START)
        expected = plain_search.exhaustive_search(next_of, size, END, max_length, alpha)
        chains.assert_found_up_to_ties(found, example, expected)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.7])
@pytest.mark.parametrize(
    ("size", "max_length", "width"), [(2, 4, 1), (5, 8, 1), (6, 7, 2), (6, 9, 4), (4, 6, 7)]
)
def test_narrow_beam_is_the_plain_search(size, max_length, width, alpha):
    rng = np.random.default_rng(size * 1000 + max_length * 10 + width)
    transitions = chains.random_chains(rng, 30 * max_length, size)
    transitions = transitions.reshape(30, max_length, size, size)
    found = beam_search(
        chains.changing_chain_step,
        chains.changing_chain_state(transitions),
        30,
        START,
        END,
        max_length,
        width,
        alpha,
    )
    for example, transition in enumerate(transitions):
        next_of = plain_search.changing_chain(transition, START)
        expected = plain_search.plain_beam_search(next_of, END, max_length, width, alpha)
        chains.assert_found(found, example, expected)


def remembering_step(tokens, state):
    """Logits and attention that depend on all tokens before, through states of several kinds."""
    memory, cache = state["memory"], state["cache"]
    position = state["position"][0]  # (N,)
    here = tf.one_hot(position, cache["tokens"].shape[1], dtype=tf.int32)
    cache = {"tokens": cache["tokens"] + here * tokens[:, None]}
    hidden = tf.tanh(0.5 * state["hidden"] + tf.gather(memory["embedding"], tokens, batch_dims=1))
    earlier = tf.cast(tf.reduce_sum(cache["tokens"], axis=1), tf.float32)
    logits = 3.0 * hidden + tf.sin(earlier)[:, None] * memory["bias"]
    attention = tf.nn.softmax(2.0 * hidden[:, : memory["bias"].shape[1] - 1])
    state = {
        "memory": memory,
        "cache": cache,
        "position": (position + 1, None),
        "hidden": hidden,
    }
    return logits, state, attention


def remembering_state(rng, batch_size, size, max_length):
    return {
        "memory": {
            "embedding": tf.constant(rng.normal(size=(batch_size, size, size)), tf.float32),
            "bias": tf.constant(2 * rng.normal(size=(batch_size, size)), tf.float32),
        },
        "cache": {"tokens": tf.zeros([batch_size, max_length], tf.int32)},
        "position": (tf.zeros([batch_size], tf.int32), None),
        "hidden": tf.zeros([batch_size, size]),
    }


def remembering_model(state, example):
    """The same model for the plain search: all steps again, for each prefix."""
    alone = tf.nest.map_structure(
        lambda leaf: None if leaf is None else leaf[example : example + 1], state
    )
    known = {}

    def run(tokens):
        if tuple(tokens) not in known:
            before = run(tokens[:-1])[1] if tokens else alone
            last = tf.constant([tokens[-1] if tokens else START])
            logits, after, attention = remembering_step(last, before)
            log_probabilities = tf.nn.log_softmax(logits)[0].numpy().tolist()
            known[tuple(tokens)] = ((log_probabilities, attention[0].numpy().tolist()), after)
        return known[tuple(tokens)]

    return lambda tokens: run(tokens)[0]


@pytest.mark.parametrize("end_rule", ["finished", "running"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_state_attention_and_scores_follow_the_beams(beta, end_rule):
    batch_size, size, max_length, width = 3, 6, 7, 3
    state = remembering_state(np.random.default_rng(5), batch_size, size, max_length)
    found = beam_search(
        remembering_step,
        state,
        batch_size,
        START,
        END,
        max_length,
        width,
        0.8,
        beta,
        end_rule=end_rule,
    )
    swaps = 0
    for example in range(batch_size):
        next_of = remembering_model(state, example)
        expected = plain_search.plain_beam_search(
            next_of, END, max_length, width, 0.8, beta, end_rule=end_rule
        )
        chains.assert_found(found, example, expected)
        for slot, each in enumerate(expected):
            attention = found.attention[example, slot].numpy()
            np.testing.assert_allclose(attention[: len(each.tokens)], each.attention, atol=1e-5)
            assert not attention[len(each.tokens) :].any()
        swaps += len({tuple(each.tokens[:2]) for each in expected}) - 1
    assert swaps > 0  # the beams of some example do differ early on


def test_example_gets_in_a_batch_what_it_gets_alone():
    state = remembering_state(np.random.default_rng(8), 4, 5, 6)
    together = beam_search(remembering_step, state, 4, START, END, 6, 3, 0.6, 0.2)
    for example in range(4):
        alone = tf.nest.map_structure(
            lambda leaf: None if leaf is None else leaf[example : example + 1],  # noqa: B023
            state,
        )
        found = beam_search(remembering_step, alone, 1, START, END, 6, 3, 0.6, 0.2)
        for one, many in zip(found, together, strict=True):
            np.testing.assert_allclose(one[0], many[example], atol=1e-5)


def counting_step(calls):
    def step(tokens, state):
        calls.append(1)
        return chains.changing_chain_step(tokens, state)

    return step


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_stopping_saves_steps_and_changes_nothing(alpha):
    transitions = chains.random_chains(np.random.default_rng(3), 20 * 12, 6)
    transitions[:, :, END] += 1.0
    transitions /= transitions.sum(axis=-1, keepdims=True)
    transitions = transitions.reshape(20, 12, 6, 6)
    steps = []
    for example, transition in enumerate(transitions):
        for n_best in (1, 3):
            calls = []
            found = beam_search(
                counting_step(calls),
                chains.changing_chain_state(transition[None]),
                1,
                START,
                END,
                12,
                3,
                alpha,
                n_best=n_best,
            )
            next_of = plain_search.changing_chain(transition, START)
            expected = plain_search.plain_beam_search(next_of, END, 12, 3, alpha)
            chains.assert_found(found, 0, expected)
            steps.append(len(calls))
        assert steps[-2] <= steps[-1], f"example {example}: fewer hypotheses took more steps"
    assert np.mean(steps[::2]) < 7
    assert np.mean(steps[1::2]) < 11


def test_negative_length_penalty_is_bounded_at_the_next_length():
    # [1] is finished with log 0.3. At alpha -1, [2, 1] with log 0.32 scores log 0.32 * 7 / 6,
    # which is less, while the bound of the last length would be less still: one step must do. And
    # [2, 1] with log 0.69 wins, though at the last length (14 / 6) it could not.
    for ending, winner, steps in ((0.32, [1], 1), (0.69, [2, 1], 2)):
        table = np.eye(4)
        table[START] = [(0.7 - ending) / 2, 0.3, ending, (0.7 - ending) / 2]
        table[2] = table[END]
        calls = []

        def step(tokens, state, calls=calls):
            calls.append(1)
            return chains.chain_step(tokens, state)

        state = chains.chain_state([table])
        found = beam_search(step, state, 1, START, END, 9, 2, -1.0, n_best=1)
        assert chains.hypotheses_of(found, 0) == [winner]
        assert len(calls) == steps


def test_a_settled_example_is_not_changed_by_steps_of_the_others():
    # The first example is settled after one step; its later steps are not numbers.
    quick = np.array([[0.0, 0.9, 0.1], [0.0, np.nan, 0.0], [0.0, np.nan, 0.95]])
    slow = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.01, 0.99]])
    state = chains.chain_state([quick, slow])
    together = beam_search(chains.chain_step, state, 2, START, END, 9, 1, n_best=1)
    assert chains.hypotheses_of(together, 0) == [[END]]
    assert float(together.scores[0, 0]) == pytest.approx(np.log(0.9), abs=1e-6)
    assert together.lengths[1, 0] > 1
