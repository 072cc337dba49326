import chains
import numpy as np
import plain_search
import pytest

from keras_attn.decoding import beam_search, greedy_search, sample

START, END, SIZE, LENGTH, COUNT = 0, 1, 6, 7, 12


@pytest.fixture
def transitions():
    tables = chains.random_chains(np.random.default_rng(21), COUNT * LENGTH, SIZE, zeros=0.0)
    return tables.reshape(COUNT, LENGTH, SIZE, SIZE)


def assert_beam_search_obeys(transitions, allowed, width=3, **arguments):
    """`allowed(example, tokens, token)` tells the plain search what the arguments tell ours."""
    state = chains.changing_chain_state(transitions)
    found = beam_search(
        chains.changing_chain_step, state, COUNT, START, END, LENGTH, width, 0.7, **arguments
    )
    free = beam_search(chains.changing_chain_step, state, COUNT, START, END, LENGTH, width, 0.7)
    for example, tables in enumerate(transitions):
        expected = plain_search.plain_beam_search(
            plain_search.changing_chain(tables, START),
            END,
            LENGTH,
            width,
            0.7,
            allowed=lambda tokens, token, example=example: allowed(example, tokens, token),
        )
        chains.assert_found(found, example, expected)
    assert (found.tokens.numpy() != free.tokens.numpy()).any(), "the constraint changed nothing"
    return found


def test_min_length(transitions):
    assert_beam_search_obeys(
        transitions,
        lambda example, tokens, token: token != END or len(tokens) + 1 >= 4,
        min_length=4,
    )


def test_forbidden_tokens(transitions):
    assert_beam_search_obeys(
        transitions, lambda example, tokens, token: token not in (2, 4), forbidden_tokens=[2, 4]
    )


def repeats(tokens, token, size):
    tokens = [*tokens, token]
    seen = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(seen)) < len(seen)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_ngrams(transitions, size):
    transitions = transitions**3  # peaked, so that it would repeat itself
    transitions[..., END] *= 0.01
    transitions /= transitions.sum(axis=-1, keepdims=True)
    transitions[:] = transitions[:, :1]
    # The chain stays the same from here on: a ramp of the tables breaks its ties.
    ramp = 1 + 0.01 * np.random.default_rng(2).random(transitions.shape)
    transitions = transitions * ramp / (transitions * ramp).sum(axis=-1, keepdims=True)
    assert_beam_search_obeys(
        transitions,
        lambda example, tokens, token: not repeats(tokens, token, size),
        no_repeat_ngram_size=size,
    )


def test_prefix_of_each_example(transitions):
    prefix = np.random.default_rng(4).integers(2, SIZE, size=(COUNT, 3))
    prefix[::3, 2] = -1
    prefix[1::3, :] = -1

    def allowed(example, tokens, token):
        position = len(tokens)
        return position >= 3 or prefix[example, position] in (-1, token)

    assert_beam_search_obeys(transitions, allowed, prefix=prefix)


def test_one_prefix_for_all_and_for_every_search(transitions):
    state = chains.changing_chain_state(transitions)
    call = (chains.changing_chain_step, state, COUNT, START, END, LENGTH)
    for search in (greedy_search, sample, beam_search):
        found = search(*call, prefix=[3, 3, 2])
        assert (found.tokens.numpy()[..., :3] == [3, 3, 2]).all()


def test_prefix_comes_before_the_other_constraints(transitions):
    state = chains.changing_chain_state(transitions)
    found = beam_search(
        chains.changing_chain_step,
        state,
        COUNT,
        START,
        END,
        LENGTH,
        3,
        prefix=[2, 2, 2, END],
        forbidden_tokens=[2],
        no_repeat_ngram_size=1,
        min_length=6,
    )
    for example in range(COUNT):
        assert chains.hypotheses_of(found, example) == [[2, 2, 2, END]]


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"min_length": LENGTH}, lambda tokens: len(tokens) == LENGTH),
        ({"forbidden_tokens": [2, 3, 4]}, lambda tokens: not {2, 3, 4} & set(tokens)),
        ({"no_repeat_ngram_size": 1}, lambda tokens: len(set(tokens)) == len(tokens)),
        ({"no_repeat_ngram_size": 2}, lambda tokens: not repeats(tokens[:-1], tokens[-1], 2)),
    ],
)
@pytest.mark.parametrize("search", [greedy_search, sample])
def test_greedy_search_and_sampling_obey(transitions, search, arguments, fits):
    state = chains.changing_chain_state(transitions)
    call = (chains.changing_chain_step, state, COUNT, START, END, LENGTH)
    found = search(*call, **arguments)
    lists = [chains.hypotheses_of(found, example)[0] for example in range(COUNT)]
    assert all(fits(tokens) for tokens in lists)
    free = [chains.hypotheses_of(search(*call), example)[0] for example in range(COUNT)]
    assert not all(fits(tokens) for tokens in free)


def test_log_probabilities_are_not_renormalised():
    table = np.array([[0.0, 0.2, 0.3, 0.5], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
    state = chains.chain_state([table])
    for search in (greedy_search, beam_search, sample):
        found = search(
            chains.chain_step, state, 1, START, END, 4, forbidden_tokens=[3], min_length=2
        )
        assert chains.hypotheses_of(found, 0) == [[2, END]]
        assert float(found.log_probabilities[0, 0]) == pytest.approx(np.log(0.3), abs=1e-6)


def test_no_hypothesis_left_is_an_unused_slot(transitions):
    state = chains.changing_chain_state(transitions)
    for search in (greedy_search, beam_search, sample):
        found = search(
            chains.changing_chain_step,
            state,
            COUNT,
            START,
            END,
            LENGTH,
            forbidden_tokens=range(SIZE),
        )
        assert (found.lengths.numpy() == 0).all()
        assert (found.tokens.numpy() == END).all()
        assert (found.scores.numpy() == -np.inf).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"min_length": -1},
        {"min_length": LENGTH + 1},
        {"prefix": [SIZE]},
        {"prefix": np.zeros((COUNT + 1, 2), "int32")},
        {"prefix": np.zeros((2, 2, 2), "int32")},
        {"forbidden_tokens": [-1]},
        {"forbidden_tokens": [SIZE]},
        {"forbidden_tokens": 3},
        {"no_repeat_ngram_size": -1},
        {"no_repeat_ngram_size": 1.5},
    ],
)
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_bad_argument_is_named(transitions, search, arguments):
    (name,) = arguments
    state = chains.changing_chain_state(transitions)
    with pytest.raises(ValueError, match=rf"{name} must.*Received: {name}"):
        search(chains.changing_chain_step, state, COUNT, START, END, LENGTH, **arguments)
