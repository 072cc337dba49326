"""Random Markov chains as step functions, a batch of them at a time."""

import numpy as np
import tensorflow as tf


def random_chains(rng, count, vocabulary_size, zeros=0.1):
    """Transition tables (count, V, V), some of whose entries are 0; every row sums to 1."""
    weights = rng.exponential(size=(count, vocabulary_size, vocabulary_size)) ** 2
    kept = rng.random(weights.shape) >= zeros
    kept[np.arange(vocabulary_size) == rng.integers(vocabulary_size, size=(*kept.shape[:2], 1))] = 1
    weights = weights * kept
    return weights / weights.sum(axis=-1, keepdims=True)


def chain_step(tokens, state):
    """A step whose tables lie in the memory: {"memory": {"table": (N, V, V)}}."""
    return tf.math.log(tf.gather(state["memory"]["table"], tokens, batch_dims=1)), state


def chain_state(transitions):
    return {"memory": {"table": tf.constant(transitions, tf.float32)}}


def changing_chain_step(tokens, state):
    """A step with a table for each position: {"memory": (N, L, V, V), "position": (N,)}.

    In a chain that stays the same, two paths over the same transitions in another order are tied.
    """
    table = tf.gather(state["memory"], state["position"], batch_dims=1)  # (N, V, V)
    logits = tf.math.log(tf.gather(table, tokens, batch_dims=1))
    return logits, {"memory": state["memory"], "position": state["position"] + 1}


def changing_chain_state(transitions):
    return {
        "memory": tf.constant(transitions, tf.float32),
        "position": tf.zeros([len(transitions)], tf.int32),
    }


def hypotheses_of(found, example):
    """The tokens of the used slots of an example, as lists."""
    tokens, lengths = found.tokens[example].numpy(), found.lengths[example].numpy()
    return [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True) if length]


def assert_scores(found, example, expected, tolerance=1e-5):
    """The scores and log-probabilities of an example, of the unused slots too."""
    for name, values in (
        ("score", found.scores[example]),
        ("log_probability", found.log_probabilities[example]),
    ):
        wanted = [getattr(each, name) for each in expected[: len(values)]]
        wanted += [-np.inf] * (len(values) - len(wanted))
        np.testing.assert_allclose(values, wanted, atol=tolerance, rtol=1e-6)


def assert_token_log_probabilities(found, example, expected):
    """Those of the used slots, and 0 past their ends."""
    wanted = np.zeros(found.tokens[example].shape)
    for slot, each in enumerate(expected[: len(wanted)]):
        wanted[slot, : len(each.tokens)] = each.token_log_probabilities
    np.testing.assert_allclose(found.token_log_probabilities[example], wanted, atol=1e-5, rtol=1e-6)


def assert_found(found, example, expected):
    """The hypotheses of an example are the expected ones (see `plain_search.Found`), in order."""
    wanted = [each.tokens for each in expected[: found.tokens.shape[1]]]
    assert hypotheses_of(found, example) == wanted
    assert_scores(found, example, expected)
    assert_token_log_probabilities(found, example, expected)


def assert_found_up_to_ties(found, example, expected):
    """As `assert_found`, but equal scores may come in any order."""
    hypotheses = hypotheses_of(found, example)
    assert len(hypotheses) == min(len(expected), found.tokens.shape[1])
    assert len({tuple(tokens) for tokens in hypotheses}) == len(hypotheses)
    known = {tuple(each.tokens): each for each in expected}
    same = [known[tuple(tokens)] for tokens in hypotheses]
    assert_scores(found, example, same)
    assert_token_log_probabilities(found, example, same)
    scores = [each.score for each in expected[: len(same)]]
    np.testing.assert_allclose([each.score for each in same], scores, atol=1e-5)
