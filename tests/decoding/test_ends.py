"""Where hypotheses end: at one token, at several, at none; and which of them may be the answer."""

import chains
import numpy as np
import plain_search
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search, greedy_search, sample

START = 0
RULES = ["finished", "running"]


def seeded_sample(*call, **arguments):
    return sample(*call, **arguments, seed=4)


SEARCHES = [greedy_search, seeded_sample, beam_search]


def rare_ends(rng, count, size, max_length, ends, share=0.03):
    """Chains that change with the position and seldom end: (count, max_length, V, V)."""
    transitions = chains.random_chains(rng, count * max_length, size)
    transitions[:, :, list(plain_search.ends_of(ends))] *= share
    transitions[:, :, START] += 1e-3
    transitions /= transitions.sum(axis=-1, keepdims=True)
    return transitions.reshape(count, max_length, size, size)


@pytest.mark.parametrize("end_rule", RULES)
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.7])
@pytest.mark.parametrize(
    ("size", "max_length", "ends"),
    [(3, 5, 1), (4, 4, [3, 1]), (5, 4, (2, 4, 1)), (3, 4, None), (3, 3, [1, 0, 2])],
)
def test_wide_beam_is_exhaustive(size, max_length, ends, alpha, end_rule):
    rng = np.random.default_rng(size * 100 + max_length)
    transitions = rare_ends(rng, 15, size, max_length, ends)
    width = max((size - len(plain_search.ends_of(ends))) ** max_length, 1)
    found = beam_search(
        chains.changing_chain_step,
        chains.changing_chain_state(transitions),
        15,
        START,
        ends,
        max_length,
        width,
        alpha,
        end_rule=end_rule,
        n_best=min(width, 25),
    )
    for example, transition in enumerate(transitions):
        next_of = plain_search.changing_chain(transition, START)
        expected = plain_search.exhaustive_search(next_of, size, ends, max_length, alpha, end_rule)
        chains.assert_found_up_to_ties(found, example, expected)


@pytest.mark.parametrize("end_rule", RULES)
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.7])
@pytest.mark.parametrize(("width", "ends"), [(1, [4, 1]), (3, 1), (4, [1, 3, 5]), (3, None)])
def test_narrow_beam_is_the_plain_search(width, ends, alpha, end_rule):
    size, max_length, count = 7, 8, 20
    transitions = rare_ends(np.random.default_rng(width), count, size, max_length, ends, 0.2)
    found = beam_search(
        chains.changing_chain_step,
        chains.changing_chain_state(transitions),
        count,
        START,
        ends,
        max_length,
        width,
        alpha,
        end_rule=end_rule,
    )
    for example, transition in enumerate(transitions):
        next_of = plain_search.changing_chain(transition, START)
        expected = plain_search.plain_beam_search(
            next_of, ends, max_length, width, alpha, end_rule=end_rule
        )
        chains.assert_found(found, example, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("width", [1, 4])
def test_a_running_hypothesis_wins_where_it_does_in_a_beam_with_finished_ones(width, alpha):
    size, max_length, count, end = 6, 8, 40, 1
    transitions = rare_ends(np.random.default_rng(3), count, size, max_length, end, 0.02)
    scores = {}
    for end_rule in RULES:
        found = beam_search(
            chains.changing_chain_step,
            chains.changing_chain_state(transitions),
            count,
            START,
            end,
            max_length,
            width,
            alpha,
            end_rule=end_rule,
        )
        scores[end_rule] = found.scores[:, 0].numpy()
    models = [plain_search.changing_chain(transition, START) for transition in transitions]
    theirs = np.array(
        [
            plain_search.shared_beam_search(next_of, end, max_length, width, alpha)[0].score
            for next_of in models
        ]
    )
    # They lose finished hypotheses that a running one pushed out of the beam; we do not.
    assert (scores["running"] >= theirs - 1e-5).all()
    assert np.mean(np.abs(scores["running"] - theirs) < 1e-5) > 0.6
    assert np.mean(scores["finished"] < theirs - 0.1) > 0.5


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_stopping_is_exact_where_a_running_hypothesis_may_still_win(alpha):
    size, max_length, end = 6, 12, 1
    transitions = rare_ends(np.random.default_rng(8), 16, size, max_length, end, 1.0)
    steps = []
    for transition in transitions:
        calls = []

        def step(tokens, state, calls=calls):
            calls.append(1)
            return chains.changing_chain_step(tokens, state)

        found = beam_search(
            step,
            chains.changing_chain_state(transition[None]),
            1,
            START,
            end,
            max_length,
            3,
            alpha,
            n_best=1,
            end_rule="running",
        )
        next_of = plain_search.changing_chain(transition, START)
        expected = plain_search.plain_beam_search(
            next_of, end, max_length, 3, alpha, end_rule="running"
        )
        chains.assert_found(found, 0, expected)
        steps.append(len(calls))
    assert np.mean(steps) < max_length - 2
    assert max(steps) > np.mean(steps)


@pytest.mark.parametrize("alpha", [0.7, -0.7])
def test_each_example_is_cut_at_its_own_length(alpha):
    limits = np.array([2, 7, 4, 1, 6], "int32")
    transitions = rare_ends(np.random.default_rng(11), len(limits), 6, 7, [1, 4], 0.2)
    state = chains.changing_chain_state(transitions)
    call = (chains.changing_chain_step, state, len(limits), START, [1, 4], limits, 3, alpha)
    found = beam_search(*call, end_rule="running")
    for example, limit in enumerate(limits):
        next_of = plain_search.changing_chain(transitions[example], START)
        expected = plain_search.plain_beam_search(
            next_of, [1, 4], int(limit), 3, alpha, end_rule="running"
        )
        chains.assert_found(found, example, expected)


def test_a_cut_hypothesis_pays_for_its_length_and_its_coverage():
    # [2, 2] is cut with log(0.9 * 0.9), [1] is finished with log 0.1; attention leaves source
    # position 1 at 0.1 a step.
    table = np.array([[0, 0.1, 0.9], [0, 1, 0], [0, 0.1, 0.9]])

    def step(tokens, state):
        logits, state = chains.chain_step(tokens, state)
        return logits, state, tf.broadcast_to([0.9, 0.1], [tf.shape(tokens)[0], 2])

    state = chains.chain_state([table])
    found = beam_search(step, state, 1, START, 1, 2, 2, 0.7, 0.5, n_best=2, end_rule="running")
    coverage = 0.5 * np.log(0.2)
    cut = np.log(0.81) / (7 / 6) ** 0.7 + coverage
    ended = np.log(0.09) / (7 / 6) ** 0.7 + coverage
    assert chains.hypotheses_of(found, 0) == [[2, 2], [2, 1]]
    np.testing.assert_allclose(found.scores[0], [cut, ended], rtol=1e-5)
    np.testing.assert_allclose(found.attention[0, 0], [[0.9, 0.1]] * 2, rtol=1e-6)


@pytest.mark.parametrize("search", SEARCHES)
def test_any_of_several_tokens_ends_and_the_first_fills_up(search):
    size, max_length, ends = 6, 7, [4, 1]
    transitions = rare_ends(np.random.default_rng(5), 30, size, max_length, ends, 0.7)
    call = (chains.changing_chain_step, chains.changing_chain_state(transitions), 30, START)
    found = search(*call, ends, max_length)
    last = set()
    for example in range(30):
        for tokens in chains.hypotheses_of(found, example):
            assert not set(ends) & set(tokens[:-1])
            assert tokens[-1] in ends or len(tokens) == max_length
            last.add(tokens[-1])
    assert last >= set(ends)
    past = np.arange(max_length) >= found.lengths.numpy()[..., None]
    assert (found.tokens.numpy()[past] == 4).all()
    assert (found.token_log_probabilities.numpy()[past] == 0).all()
    one = search(*call, 4, max_length)
    same = search(*call, [4], max_length)
    for single, listed in zip(one[:4], same[:4], strict=True):
        np.testing.assert_array_equal(single, listed)


@pytest.mark.parametrize("search", SEARCHES)
def test_without_an_end_every_answer_has_all_its_tokens(search):
    size, limits = 5, np.array([6, 3, 1, 6], "int32")
    transitions = rare_ends(np.random.default_rng(6), 4, size, 6, None)
    state = chains.changing_chain_state(transitions)
    found = search(chains.changing_chain_step, state, 4, START, None, limits, min_length=2)
    np.testing.assert_array_equal(
        found.lengths, np.broadcast_to(limits[:, None], found.lengths.shape)
    )
    past = np.arange(6) >= found.lengths.numpy()[..., None]
    assert (found.tokens.numpy()[past] == 0).all()
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"min_length": 4}, lambda tokens: len(tokens) >= 4),
        ({"forbidden_tokens": [3]}, lambda tokens: 3 not in tokens),
        ({"prefix": [2, 3]}, lambda tokens: tokens == [2, 3]),
        ({"prefix": [2, 1], "forbidden_tokens": [1]}, lambda tokens: tokens == [2, 1]),
    ],
)
def test_constraints_know_all_ends(search, arguments, fits):
    transitions = rare_ends(np.random.default_rng(7), 20, 6, 7, [1, 3], 1.5)
    state = chains.changing_chain_state(transitions)
    call = (chains.changing_chain_step, state, 20, START, [1, 3], 7)
    found, free = search(*call, **arguments), search(*call)
    assert all(fits(tokens) for each in range(20) for tokens in chains.hypotheses_of(found, each))
    assert not all(
        fits(tokens) for each in range(20) for tokens in chains.hypotheses_of(free, each)
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_ties_of_ends_go_to_the_better_beam_then_the_lower_token(compiled):
    def flat_step(tokens, state):
        return tf.zeros([tf.shape(tokens)[0], 4]), state

    def run():
        ended = beam_search(flat_step, {}, 1, START, [3, 1], 2, 4)
        cut = beam_search(flat_step, {}, 1, START, [3, 1], 1, 4, end_rule="running")
        return ended, cut

    ended, cut = tf.function(run, jit_compile=compiled)()
    # Of one token [1] and [3]; of two [0, 1], [0, 3], [2, 1] and [2, 3].
    assert ended.tokens[0].numpy().tolist() == [[1, 3], [3, 3], [0, 1], [0, 3]]
    assert cut.tokens[0].numpy().tolist() == [[1], [3], [0], [2]]


@pytest.mark.parametrize("search", SEARCHES)
def test_ends_may_be_arrays_and_tensors(search):
    transitions = rare_ends(np.random.default_rng(9), 8, 6, 6, [1, 3], 0.7)
    state = chains.changing_chain_state(transitions)

    def run(end_id):
        return search(chains.changing_chain_step, state, 8, START, end_id, 6)

    expected = run([3, 1])
    for end_id in (np.array([3, 1]), np.array([3, 1], "uint8"), (np.int64(3), 1)):
        np.testing.assert_array_equal(run(end_id).tokens, expected.tokens)
    traced = tf.function(run)
    np.testing.assert_array_equal(traced(tf.constant([3, 1])).tokens, expected.tokens)
    np.testing.assert_array_equal(traced(tf.constant(3)).tokens, run(3).tokens)
    with pytest.raises(tf.errors.InvalidArgumentError, match="end_id must name each token once"):
        traced(tf.constant([3, 3]))


@pytest.mark.parametrize(
    ("end_id", "message"),
    [
        ([], r"at least one token.*Received: end_id=\[\]"),
        (np.zeros([0], "int32"), "at least one token.*Received: end_id="),
        ([1, 3, 1], r"each token once.*Received: end_id=\[1, 3, 1\]"),
        ([1, 6], r"vocabulary, whose size is 6.*Received: end_id=\[1, 6\]"),
        ([1, -1], r"vocabulary, whose size is 6.*Received: end_id=\[1, -1\]"),
        (2**40, "vocabulary, whose size is 6.*Received: end_id="),
        (True, "integers.*Received: end_id=True"),
        ([1, False], r"integers.*Received: end_id=\[1, False\]"),
        (np.array([True, False]), "integers.*Received: end_id="),
        (1.0, "integers.*Received: end_id=1.0"),
        ([1.0, 3.0], "integers.*Received: end_id="),
        (tf.constant(1.0), "integers.*Received: end_id="),
        ("1", "integers.*Received: end_id='1'"),
        ({1, 3}, "integers.*Received: end_id={1, 3}"),
        ([[1], [2, 3]], "integers.*Received: end_id="),
        ([[1, 3]], r"of shape \(E,\).*Received: end_id.shape=\(1, 2\)"),
    ],
)
@pytest.mark.parametrize("search", SEARCHES)
def test_bad_ends_are_refused_in_a_sentence(search, end_id, message):
    state = chains.chain_state(chains.random_chains(np.random.default_rng(0), 2, 6))
    with pytest.raises(ValueError, match=message):
        search(chains.chain_step, state, 2, START, end_id, 4)


def test_ends_of_an_unknown_number_are_refused():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(end_id):
        state = chains.chain_state(chains.random_chains(np.random.default_rng(0), 2, 6))
        return beam_search(chains.chain_step, state, 2, START, end_id, 4)

    with pytest.raises(ValueError, match=r"known when .* Received: end_id.shape=\(None,\)"):
        run(tf.constant([1]))


@pytest.mark.parametrize("end_rule", ["Running", None, True, 1, ["running"]])
def test_an_unknown_end_rule_is_refused(end_rule):
    state = chains.chain_state(chains.random_chains(np.random.default_rng(0), 2, 6))
    with pytest.raises(ValueError, match=r'"finished" or "running"\. Received: end_rule='):
        beam_search(chains.chain_step, state, 2, START, 1, 4, end_rule=end_rule)


@pytest.mark.parametrize("name", ["start_id", "prefix", "forbidden_tokens"])
@pytest.mark.parametrize("tokens", [[1.5], [True], ["2"], [[1], [2, 3]]])
def test_other_tokens_must_be_integers_too(name, tokens):
    state = chains.chain_state(chains.random_chains(np.random.default_rng(0), 1, 6))
    call = {"start_id": START, name: tokens}
    for search in SEARCHES:
        with pytest.raises(ValueError, match=f"integers. Received: {name}="):
            search(chains.chain_step, state, 1, end_id=1, max_length=4, **call)


def test_an_end_that_is_known_when_it_runs_and_outside_the_vocabulary_stops_every_search():
    logits = tf.zeros([4, 4])

    def step(tokens, state):
        return tf.gather(logits, tokens), state

    for search in (greedy_search, sample, beam_search):
        run = tf.function(
            lambda ends, search=search: search(step, {}, 1, 0, ends, 4).tokens,
            input_signature=[tf.TensorSpec([2], tf.int32)],
        )
        assert run(tf.constant([1, 2])).shape[0] == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="tokens of the vocabulary"):
            run(tf.constant([1, 77]))
