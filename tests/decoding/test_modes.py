"""The same answer eagerly, in a graph, under XLA and from a SavedModel, whatever the sizes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search, greedy_search, sample

START, END, SIZE, LENGTH = 0, 1, 7, 6
TABLE = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype("float32") * 2
SEARCHES = {
    "greedy": greedy_search,
    "sample": lambda *call: sample(*call, temperature=0.9, top_k=4, top_p=0.95, seed=3),
    "beam": lambda *call: beam_search(*call, 3, 0.6, 0.2),
    "constrained beam": lambda *call: beam_search(
        *call, 3, 0.6, n_best=2, min_length=3, forbidden_tokens=[4], no_repeat_ngram_size=2
    ),
    "beam wider than the vocabulary": lambda *call: beam_search(*call, SIZE + 3, 0.6),
}


def step(tokens, state):
    source = state["memory"]["source"]  # (N, S)
    total, (count, nothing) = state["total"], state["counts"]
    total = 0.5 * total + tf.reduce_sum(source, axis=1)
    logits = tf.gather(TABLE, tokens) + tf.sin(total)[:, None] * tf.range(SIZE, dtype=tf.float32)
    mask = state["memory"]["mask"]
    scores = tf.where(mask, source + tf.cast(count, tf.float32)[:, None], -1e9)
    attention = tf.where(mask, tf.nn.softmax(scores), 0.0)
    state = {"memory": state["memory"], "total": total, "counts": (count + 1, nothing)}
    return logits, state, attention


def state_of(source, lengths):
    batch_size = tf.shape(source)[0]
    return {
        "memory": {"source": source, "mask": tf.sequence_mask(lengths, tf.shape(source)[1])},
        "total": tf.zeros([batch_size]),
        "counts": (tf.zeros([batch_size], tf.int32), None),
    }


def sources(batch_size, length):
    rng = np.random.default_rng(batch_size + 10 * length)
    lengths = rng.integers(1, length + 1, size=batch_size).astype("int32")
    source = rng.normal(size=(batch_size, length)).astype("float32")
    return np.where(np.arange(length) < lengths[:, None], source, 0.0), lengths


def assert_same(one, other):
    for name, expected, found in zip(one._fields, one, other, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5, err_msg=name)


def search_of(name, max_length=LENGTH):
    def run(source, lengths):
        batch_size = tf.shape(source)[0]
        state = state_of(source, lengths)
        return SEARCHES[name](step, state, batch_size, START, END, max_length)

    return run


UNKNOWN = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None], tf.int32)]


@pytest.mark.parametrize("name", SEARCHES)
def test_graph_xla_and_reloaded_are_eager(name, tmp_path):
    run = search_of(name)
    module = tf.Module()
    module.run = tf.function(lambda *call: run(*call)._asdict(), input_signature=UNKNOWN)
    tf.saved_model.save(module, str(tmp_path))
    reloaded = tf.saved_model.load(str(tmp_path)).run
    known = tf.function(run)
    compiled = tf.function(run, jit_compile=True)
    for batch_size, length in ((0, 4), (1, 4), (3, 1), (3, 4)):
        source, lengths = sources(batch_size, length)
        eager = run(source, lengths)
        assert eager.tokens.shape[0] == batch_size
        assert eager.tokens.shape[2] == LENGTH
        assert eager.attention.shape == (*eager.tokens.shape, length)
        found = reloaded(tf.constant(source, tf.float32), lengths)
        assert_same(eager, type(eager)(**found))
        if (batch_size, length) in ((0, 4), (3, 4)):  # each is traced and compiled anew
            assert_same(eager, known(tf.constant(source), lengths))
            assert_same(eager, compiled(tf.constant(source), lengths))


def searches_of_other_ends(source, lengths):
    """Searches with several ends or none, of both rules, and of several samples, in one graph."""
    batch_size, state = tf.shape(source)[0], state_of(source, lengths)
    call = (step, state, batch_size, START)
    ended = sample(*call, [END, 3], LENGTH, seed=3, n_best=2, top_p=0.9)
    running = beam_search(*call, [2, END], LENGTH, 3, 0.6, 0.2, min_length=5, end_rule="running")
    endless = beam_search(*call, None, LENGTH, 2, no_repeat_ngram_size=1)
    return {"ended": ended, "running": running, "endless": endless}


def test_other_ends_give_the_same_on_every_path(tmp_path):
    module = tf.Module()
    module.run = tf.function(
        lambda *call: tf.nest.flatten(searches_of_other_ends(*call)), input_signature=UNKNOWN
    )
    tf.saved_model.save(module, str(tmp_path))
    reloaded = tf.saved_model.load(str(tmp_path)).run
    compiled = tf.function(searches_of_other_ends, jit_compile=True)
    for batch_size in (0, 3):
        source, lengths = sources(batch_size, 4)
        eager = searches_of_other_ends(source, lengths)
        found = reloaded(tf.constant(source, tf.float32), lengths)
        found = tf.nest.pack_sequence_as(eager, found)
        for name, compared in compiled(tf.constant(source), lengths).items():
            assert_same(eager[name], compared)
            assert_same(eager[name], found[name])
    cut = ~np.isin(eager["running"].tokens[:, :, -1], [2, END])
    assert 0 < np.sum(cut) < cut.size, "finished and running hypotheses do not compete"
    assert len(np.unique(eager["ended"].lengths)) > 1


@pytest.mark.parametrize("name", SEARCHES)
def test_log_probabilities_of_tokens_add_up(name):
    found = search_of(name)(*sources(4, 5))
    used = found.lengths.numpy() > 0
    total = tf.reduce_sum(found.token_log_probabilities, axis=2).numpy()
    np.testing.assert_allclose(total[used], found.log_probabilities.numpy()[used], rtol=1e-5)
    assert not total[~used].any()
    inside = tf.sequence_mask(found.lengths, LENGTH).numpy()
    assert ((found.token_log_probabilities.numpy() < 0) == inside).all()


@pytest.mark.parametrize("name", ["greedy", "beam", "constrained beam"])
def test_unknown_sizes_compile(name):
    compiled = tf.function(search_of(name), jit_compile=True, input_signature=UNKNOWN)
    source, lengths = sources(2, 5)
    assert_same(
        search_of(name)(source, lengths), compiled(tf.constant(source, tf.float32), lengths)
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_max_length_may_be_a_tensor(name, compiled):
    def run(source, lengths, max_length):
        return search_of(name, max_length)(source, lengths)

    traced = tf.function(run, jit_compile=compiled)
    source, lengths = sources(2, 3)
    for max_length in (1, 5):
        found = traced(tf.constant(source), lengths, tf.constant(max_length))
        assert_same(search_of(name, max_length)(source, lengths), found)
        assert found.tokens.shape[2] == max_length


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", SEARCHES)
def test_each_example_may_have_its_own_max_length(name, traced):
    def run(source, lengths, limits):
        return search_of(name, limits)(source, lengths)

    source, lengths = sources(4, 3)
    limits = np.array([3, 6, 4, 5], "int32")
    traced_run = tf.function(run, input_signature=[*UNKNOWN, tf.TensorSpec([None], tf.int32)])
    together = (traced_run if traced else run)(tf.constant(source, tf.float32), lengths, limits)
    assert together.tokens.shape[2] == 6
    for example, limit in enumerate(limits):
        alone = search_of(name, int(limit))(source, lengths)
        for field, one, many in zip(alone._fields, alone, together, strict=True):
            one, many = one[example].numpy(), many[example].numpy()
            if field in ("tokens", "attention", "token_log_probabilities"):
                many = many[:, :limit]
            np.testing.assert_allclose(many, one, atol=2e-5, err_msg=field)


@pytest.mark.parametrize("limits", [[2, 0], [[1, 2]]])
@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_max_lengths_that_are_none_are_refused(name, limits):
    source, lengths = sources(2, 3)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="max_length must be"):
        search_of(name, np.array(limits, "int32"))(source, lengths)


@pytest.mark.parametrize("name", SEARCHES)
def test_padded_batch_gives_what_each_example_gets_alone(name):
    if name == "sample":  # the second example draws the second number
        source, lengths = (part[:1] for part in sources(3, 5))
        padded = np.pad(source, [(0, 0), (0, 2)])
        assert_same_up_to(search_of(name)(source, lengths), search_of(name)(padded, lengths), 0, 5)
        return
    source, lengths = sources(3, 5)
    together = search_of(name)(source, lengths)
    for example in range(3):
        length = lengths[example]
        alone = search_of(name)(source[example : example + 1, :length], [length])
        assert_same_up_to(alone, together, example, length)


def assert_same_up_to(alone, together, example, length):
    for one, many in zip(alone[:4], together[:4], strict=True):
        np.testing.assert_allclose(one[0], many[example], atol=2e-5)
    np.testing.assert_allclose(
        alone.attention[0], together.attention[example, ..., :length], atol=2e-5
    )
    assert not together.attention[example, ..., length:].numpy().any()


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_a_step_without_attention_returns_none(name):
    def plain_step(tokens, state):
        return tf.gather(TABLE, tokens), state

    searches = {**SEARCHES, "beam": beam_search}
    found = tf.function(lambda: searches[name](plain_step, {}, 2, START, END, LENGTH))()
    assert found.attention is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_log_probabilities_are_float32(search, dtype):
    def low_step(tokens, state):
        return tf.cast(tf.gather(TABLE, tokens), dtype), state

    def same_step(tokens, state):
        return tf.cast(low_step(tokens, state)[0], "float32"), state

    found = search(low_step, {}, 2, START, END, LENGTH)
    expected = search(same_step, {}, 2, START, END, LENGTH)
    assert found.scores.dtype == found.log_probabilities.dtype == tf.float32
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.tokens, expected.tokens)


@pytest.mark.parametrize("compiled", [False, True])
def test_ties_go_to_the_better_beam_then_the_lower_token(compiled):
    def flat_step(tokens, state):
        return tf.zeros([tf.shape(tokens)[0], 5]), state

    def run():
        greedy = greedy_search(flat_step, {}, 1, START, 4, 3)
        beam = beam_search(flat_step, {}, 1, START, 4, 3, 3)
        return greedy, beam

    greedy, beam = tf.function(run, jit_compile=compiled)()
    assert greedy.tokens[0].numpy().tolist() == [[0, 0, 0]]
    # Finished: after one token [4], after two [0, 4], [1, 4] and [2, 4], in this order.
    assert beam.tokens[0].numpy().tolist() == [[4, 4, 4], [0, 4, 4], [1, 4, 4]]


def test_growing_lengths_enter_one_graph():
    traces = []

    def run(source, lengths):
        traces.append(1)
        return search_of("beam")(source, lengths)

    traced = tf.function(run, input_signature=UNKNOWN)
    for batch_size, length in ((1, 2), (4, 7), (0, 3)):
        source, lengths = sources(batch_size, length)
        found = traced(tf.constant(source, tf.float32), lengths)
        assert found.attention.shape == (batch_size, 3, LENGTH, length)
    assert len(traces) == 1


def test_greedy_search_stops_when_all_have_ended():
    calls = []

    def short_step(tokens, state):
        calls.append(1)
        count = state["count"] + 1
        ends = tf.where(count >= state["memory"], 9.0, -9.0)
        logits = tf.concat([tf.zeros([3, 1]), ends[:, None], tf.zeros([3, 3])], axis=1)
        return logits, {**state, "count": count}

    state = {"memory": tf.constant([2, 4, 1]), "count": tf.zeros([3], tf.int32)}
    found = greedy_search(short_step, state, 3, START, END, 50)
    assert found.lengths[:, 0].numpy().tolist() == [2, 4, 1]
    assert len(calls) == 4


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_start_token_of_each_example(search):
    def plain_step(tokens, state):
        return tf.gather(TABLE, tokens), state

    found = search(plain_step, {}, 2, [2, 5], END, LENGTH)
    for example, start in enumerate((2, 5)):
        alone = search(plain_step, {}, 1, start, END, LENGTH)
        np.testing.assert_array_equal(found.tokens[example], alone.tokens[0])


@pytest.mark.parametrize("search", [greedy_search, beam_search])
def test_unknown_batch_size_with_a_state_of_known_shape(search):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
    def run(batch_size):
        source, lengths = sources(3, 4)
        state = {**state_of(tf.constant(source, tf.float32), lengths), "total": tf.zeros([3])}
        return search(step, state, batch_size, START, END, LENGTH)

    assert run(3).tokens.shape[0] == 3


def test_memory_is_expanded_but_never_reordered():
    seen = []

    def numbering_step(tokens, state):
        seen.append((state["memory"]["row"].numpy().tolist(), state["row"].numpy().tolist()))
        rows = tf.range(tf.shape(tokens)[0])  # numbers the beams, where memory may not
        return tf.gather(TABLE, tokens), {"memory": {"row": rows}, "row": rows}

    state = {"memory": {"row": tf.constant([7, 8])}, "row": tf.constant([7, 8])}
    beam_search(numbering_step, state, 2, 2, END, LENGTH, 3)
    assert seen[0] == ([7, 7, 7, 8, 8, 8], [7, 7, 7, 8, 8, 8])
    assert all(memory == [0, 1, 2, 3, 4, 5] for memory, _ in seen[1:])
    assert any(reordered != [0, 1, 2, 3, 4, 5] for _, reordered in seen[1:])
