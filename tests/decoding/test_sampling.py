import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import greedy_search, sample

PROBABILITIES = np.array([0.3, 0.05, 0.4, 0.05, 0.2], "float32")
END = 1


def flat_step(tokens, state):
    """The same distribution whatever came before."""
    shape = [tf.shape(tokens)[0], len(PROBABILITIES)]
    return tf.broadcast_to(tf.math.log(PROBABILITIES), shape), state


def shares(count=20_000, **arguments):
    """How often each token is drawn at the first step."""
    drawn = sample(flat_step, {}, count, 0, END, 1, seed=5, **arguments)
    return np.bincount(drawn.tokens.numpy().ravel(), minlength=5) / count


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.5}, PROBABILITIES**2),
        ({"temperature": 2.0}, PROBABILITIES**0.5),
        ({"top_k": 2}, [0.3, 0, 0.4, 0, 0]),
        ({"top_k": 4}, [0.3, 0.05, 0.4, 0, 0.2]),  # of equals the lower token is left
        ({"top_k": 99}, PROBABILITIES),
        ({"top_p": 0.5}, [0.3, 0, 0.4, 0, 0]),
        ({"top_p": 0.39}, [0, 0, 0.4, 0, 0]),
        ({"top_p": 1.0}, PROBABILITIES),
        ({"top_k": 3, "top_p": 0.7}, [0.3, 0, 0.4, 0, 0]),  # 0.7 / 0.9 reaches 0.7
        ({"temperature": 0.5, "top_p": 0.55}, [0.09, 0, 0.16, 0, 0]),
        ({"forbidden_tokens": [2]}, [0.3, 0.05, 0, 0.05, 0.2]),
    ],
)
def test_tokens_are_drawn_with_their_probability(arguments, expected):
    expected = np.array(expected) / np.sum(expected)
    drawn = shares(**arguments)
    np.testing.assert_allclose(drawn, expected, atol=0.015)
    assert (drawn[expected == 0] == 0).all()


def test_steps_and_rows_are_independent():
    drawn = sample(flat_step, {}, 4000, 0, END, 2, seed=3, forbidden_tokens=[END])
    pairs = np.zeros((5, 5))
    np.add.at(pairs, tuple(drawn.tokens[:, 0].numpy().T), 1 / 4000)
    alone = np.where(np.arange(5) == END, 0, PROBABILITIES) / 0.95
    np.testing.assert_allclose(pairs, np.outer(alone, alone), atol=0.025)


def test_seed_decides_the_tokens():
    def tokens(seed):
        return sample(flat_step, {}, 50, 0, END, 6, seed=seed).tokens.numpy()

    np.testing.assert_array_equal(tokens(4), tokens(4))
    np.testing.assert_array_equal(tokens(4), tokens(tf.constant([4, 0])))
    assert (tokens(4) != tokens(5)).any()
    assert (tokens(None) != tokens(None)).any()


def remembering_step(tokens, state):
    """The distribution depends on the example, on all tokens before, and on the position."""
    seen = 1.3 * state["seen"] + tf.cast(tokens, tf.float32)
    logits = tf.sin(seen[:, None] * state["memory"]["table"])
    return logits, {**state, "seen": seen}, tf.nn.softmax(state["memory"]["table"][:, :2])


def remembering_state(repeats=1):
    table = np.random.default_rng(2).normal(size=(3, 5)).astype("float32")
    table = np.repeat(table, repeats, axis=0)
    return {"memory": {"table": tf.constant(table)}, "seen": tf.zeros([len(table)])}


@pytest.mark.parametrize("how", ["eager", "graph", "xla"])
def test_n_best_is_the_repeated_batch_ranked(how):
    count, limits = 4, np.array([6, 3, 5])

    def several():
        state = remembering_state()
        return sample(remembering_step, state, 3, 0, END, limits, seed=5, n_best=count)

    run = several if how == "eager" else tf.function(several, jit_compile=how == "xla")
    found, state = run(), remembering_state(count)
    rows = sample(remembering_step, state, 3 * count, 0, END, np.repeat(limits, count), seed=5)
    for example in range(3):
        mine = slice(count * example, count * (example + 1))
        order = np.argsort(-rows.scores[mine, 0].numpy(), kind="stable")
        for field, many, one in zip(found._fields, found, rows, strict=True):
            one = one[mine, 0].numpy()[order]
            np.testing.assert_allclose(many[example], one, atol=1e-5, err_msg=field)
        assert len(np.unique(found.scores[example])) > 1


@pytest.mark.parametrize("compiled", [False, True])
def test_same_tokens_in_a_graph_and_under_xla(compiled):
    def search(seed):
        return sample(flat_step, {}, 64, 0, END, 9, 0.8, top_k=4, top_p=0.9, seed=seed)

    eager = search(tf.constant(11))
    traced = tf.function(search, jit_compile=compiled)(tf.constant(11))
    np.testing.assert_array_equal(eager.tokens, traced.tokens)
    np.testing.assert_allclose(eager.scores, traced.scores, rtol=1e-5)


def test_score_is_the_models_log_probability():
    drawn = sample(flat_step, {}, 20, 0, END, 8, temperature=3.0, top_k=3, seed=1)
    for row in range(20):
        tokens = drawn.tokens[row, 0, : drawn.lengths[row, 0]].numpy()
        expected = np.log(PROBABILITIES)[tokens].sum()
        assert float(drawn.scores[row, 0]) == pytest.approx(expected, abs=1e-5)
        each = drawn.token_log_probabilities[row, 0].numpy()
        np.testing.assert_allclose(each[: len(tokens)], np.log(PROBABILITIES)[tokens], rtol=1e-5)
        assert not each[len(tokens) :].any()


def test_a_low_temperature_is_greedy():
    drawn = sample(flat_step, {}, 10, 0, END, 4, temperature=1e-3, seed=1)
    greedy = greedy_search(flat_step, {}, 10, 0, END, 4)
    np.testing.assert_array_equal(drawn.tokens, greedy.tokens)


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": 0},
        {"top_k": 2.5},
        {"seed": [1, 2, 3]},
        {"n_best": 0},
        {"n_best": 1.5},
    ],
)
def test_bad_argument_is_named(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=rf"{name}.*Received: {name}"):
        sample(flat_step, {}, 2, 0, END, 4, **arguments)
