"""What is no number is never taken for an answer, and every wrong argument is named."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search, greedy_search, sample

START, END, SIZE, LENGTH = 0, 1, 5, 6
TABLE = np.random.default_rng(1).normal(size=(SIZE, SIZE)).astype("float32")
SEARCHES = {
    "greedy": greedy_search,
    "sample": lambda *call: sample(*call, seed=2),
    "nucleus": lambda *call: sample(*call, top_p=0.9, seed=2),
    "beam": lambda *call: beam_search(*call, 3, 0.6, forbidden_tokens=[3]),
}
# What is built of the same parts, on one path.
OPTIONS = {
    "samples": lambda *call: sample(*call, seed=2, n_best=3),
    "running beam": lambda *call: beam_search(*call, 3, 0.6, end_rule="running"),
    "beam of two ends": lambda *call: beam_search(*call[:4], [END, 3], call[5], 3, 0.6),
}
PATHS = [(name, how) for name in SEARCHES for how in ("eager", "xla", "reloaded")]
PATHS += [(name, "eager") for name in OPTIONS]


def poisoned_step(tokens, state):
    """At the step `when`, the logits get `what` added: (N,) and (N, V)."""
    now = state["count"] == state["memory"]["when"]
    logits = tf.gather(TABLE, tokens) - tf.one_hot(END, SIZE) * 9.0
    logits = tf.where(now[:, None], logits + state["memory"]["what"], logits)
    attention = tf.nn.softmax(tf.zeros([tf.shape(tokens)[0], 2]))
    return logits, {**state, "count": state["count"] + 1}, attention


def poisoned(what, when):
    what = np.asarray(what, "float32")
    return {
        "memory": {"what": what, "when": np.full(len(what), when, "int32")},
        "count": np.zeros(len(what), "int32"),
    }


def run(name, state, how, path):
    def search(state):
        batch_size = tf.shape(state["count"])[0]
        return {**SEARCHES, **OPTIONS}[name](poisoned_step, state, batch_size, START, END, LENGTH)

    state = tf.nest.map_structure(tf.constant, state)
    if how == "eager":
        return search(state)
    if how == "xla":
        return tf.function(search, jit_compile=True)(state)
    module = tf.Module()
    signature = tf.nest.map_structure(
        lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype), state
    )
    module.run = tf.function(search, input_signature=[signature])
    tf.saved_model.save(module, str(path))
    return tf.saved_model.load(str(path)).run(state)


@pytest.mark.parametrize(("name", "how"), PATHS)
@pytest.mark.parametrize("when", [0, 3])
def test_nan_and_infinity_break_their_example_only(name, how, when, tmp_path):
    nan, inf = np.nan, np.inf
    what = [
        [0, 0, 0, 0, 0],
        [0, 0, nan, 0, 0],
        [nan] * 5,
        [0, 0, 0, nan, 0],  # a token that is forbidden
        [0, nan, 0, 0, 0],
        [inf, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    found = run(name, poisoned(what, when), how, tmp_path)
    healthy = run(name, poisoned([[0] * 5] * 7, when), "eager", tmp_path)
    for example in (0, 6):
        for one, other in zip(found, healthy, strict=True):
            np.testing.assert_allclose(one[example], other[example], atol=1e-5)
    for example in range(1, 6):
        assert not found.lengths[example].numpy().any()
        assert (found.tokens[example].numpy() == END).all()
        assert not found.attention[example].numpy().any()
        assert not found.token_log_probabilities[example].numpy().any()
        for values in (found.scores[example].numpy(), found.log_probabilities[example].numpy()):
            assert np.isnan(values).all()


@pytest.mark.parametrize(("name", "how"), PATHS)
def test_without_a_possible_token_there_is_no_hypothesis(name, how, tmp_path):
    found = run(name, poisoned([[-np.inf] * 5, [0] * 5], 2), how, tmp_path)
    lengths = found.lengths[0].numpy()
    # Beam search keeps what had ended before.
    assert (lengths <= (2 if "beam" in name else 0)).all()
    assert (found.scores[0].numpy()[lengths == 0] == -np.inf).all()
    assert np.isfinite(found.scores[1]).all()
    found = run(name, poisoned([[-np.inf] * 5, [0] * 5], 0), how, tmp_path)
    assert not found.lengths[0].numpy().any()
    assert (found.tokens[0].numpy() == END).all()
    assert (found.scores[0].numpy() == -np.inf).all()
    assert (found.log_probabilities[0].numpy() == -np.inf).all()


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_nan_after_the_end_does_not_count(search):
    def step(tokens, state):
        ended = tokens == END
        logits = tf.where(ended[:, None], np.nan, tf.one_hot(END, SIZE, 50.0, 0.0))
        return tf.broadcast_to(logits, [tf.shape(tokens)[0], SIZE]), state

    found = search(step, {}, 2, START, END, LENGTH)
    assert (found.lengths[:, 0].numpy() == 1).all()
    assert np.isfinite(found.scores[:, 0]).all()


def test_one_broken_sample_breaks_its_example():
    # Only after token 2 the logits are not numbers, and some samples of the first example go there.
    def step(tokens, state):
        broken = (tokens == 2) & state["memory"]
        logits = tf.broadcast_to(tf.math.log([0.2, 0.2, 0.2, 0.2, 0.2]), [len(tokens), SIZE])
        return tf.where(broken[:, None], np.nan, logits), state

    state = {"memory": tf.constant([True, False])}
    found = sample(step, state, 2, START, END, 3, seed=1, n_best=8)
    alone = sample(step, {"memory": tf.constant([False])}, 1, START, END, 3, seed=1, n_best=8)
    assert 0 < np.sum(alone.tokens[0, :, 0] == 2) < 8
    assert np.isnan(found.scores[0]).all()
    assert not found.lengths[0].numpy().any()
    assert np.isfinite(found.scores[1]).all()


def test_nan_attention_breaks_the_coverage_penalty():
    def step(tokens, state):
        attention = tf.where(state["bad"][:, None], np.nan, tf.fill([tf.shape(tokens)[0], 2], 0.5))
        return tf.gather(TABLE, tokens), state, attention

    state = {"bad": tf.constant([True, False])}
    found = beam_search(step, state, 2, START, END, LENGTH, coverage_penalty=0.1)
    assert np.isnan(found.scores[0]).all()
    assert np.isfinite(found.scores[1]).all()


def good_step(tokens, state):
    return tf.gather(TABLE, tokens), state


BAD_ARGUMENTS = [
    ({"max_length": 0}, "max_length"),
    ({"max_length": 2.5}, "max_length"),
    ({"batch_size": -1}, "batch_size"),
    ({"end_id": SIZE}, "end_id"),
    ({"end_id": -1}, "end_id"),
    ({"start_id": [[0, 0]]}, "start_id"),
    ({"state": {"cache": tf.zeros([])}}, r"state\['cache'\].shape"),
    ({"state": {"cache": [tf.zeros([3, 2])]}}, r"state\['cache'\]\[0\].shape"),
    ({"state": {"memory": (tf.zeros([1, 2]),)}}, r"state\['memory'\]\[0\].shape"),
    ({"step": lambda tokens, state: tf.gather(TABLE, tokens)}, "step"),
    ({"step": lambda tokens, state: (tf.gather(TABLE, tokens),)}, "step"),
    ({"step": lambda tokens, state: (tf.zeros([tokens.shape[0]]), state)}, "logits.shape"),
    ({"step": lambda tokens, state: (tf.zeros([1, SIZE]), state)}, "logits.shape"),
    ({"step": lambda tokens, state: (tf.zeros([tokens.shape[0], 1, SIZE]), state)}, "logits.shape"),
    (
        {"step": lambda tokens, state: (tf.zeros([tokens.shape[0], SIZE], tf.int32), state)},
        "logits.dtype",
    ),
    (
        {"step": lambda tokens, state: (*good_step(tokens, state), tf.zeros([1, 2]))},
        "attention.shape",
    ),
    ({"step": lambda tokens, state: (good_step(tokens, state)[0], {"other": tokens})}, "state="),
    (
        {
            "step": lambda tokens, state: (good_step(tokens, state)[0], {"h": state["h"][:, :1]}),
            "state": {"h": tf.zeros([2, 2])},
        },
        r"state\['h'\].shape",
    ),
    (
        {
            "step": lambda tokens, state: (
                good_step(tokens, state)[0],
                {"h": tf.cast(state["h"], tf.int32)},
            ),
            "state": {"h": tf.zeros([2, 2])},
        },
        r"state\['h'\].shape",
    ),
]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("search", [greedy_search, sample, beam_search])
@pytest.mark.parametrize(("change", "received"), BAD_ARGUMENTS)
def test_wrong_argument_is_named(search, change, received, traced):
    call = {
        "step": good_step,
        "state": {},
        "batch_size": 2,
        "start_id": START,
        "end_id": END,
        "max_length": LENGTH,
        **change,
    }

    def run():
        return search(**call)

    with pytest.raises(ValueError, match=f"Received: {received}"):
        tf.function(run)() if traced else run()


@pytest.mark.parametrize(
    ("change", "received"),
    [
        ({"beam_width": 0}, "beam_width=0"),
        ({"beam_width": 2.5}, "beam_width=2.5"),
        ({"n_best": 5}, "n_best=5"),
        ({"n_best": 0}, "n_best=0"),
        ({"length_penalty": np.nan}, "length_penalty=nan"),
        ({"coverage_penalty": -0.1}, "coverage_penalty=-0.1"),
        ({"coverage_penalty": 0.1}, "coverage_penalty=0.1, attention=None"),
        ({"source_mask": np.ones((2, 3))}, "source_mask.dtype"),
    ],
)
def test_wrong_argument_of_beam_search_is_named(change, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        beam_search(good_step, {}, 2, START, END, LENGTH, **change)


@pytest.mark.parametrize("n_best", [0, 2, 1.5, None])
def test_greedy_search_has_one_hypothesis_and_says_who_has_more(n_best):
    message = "use beam_search or sample. Received: n_best="
    with pytest.raises(ValueError, match=message):
        greedy_search(good_step, {}, 2, START, END, LENGTH, n_best=n_best)


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_wrong_sizes_known_only_at_run_time_are_refused(search):
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)])
    def run(hidden, max_length):
        return search(good_step, {"h": hidden}, 2, START, END, max_length)

    assert run(tf.zeros([2, 2]), 3).tokens.shape[2] == 3
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"dimension of state.* must be batch_size"
    ):
        run(tf.zeros([3, 2]), 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_length must be at least 1"):
        run(tf.zeros([2, 2]), 0)
