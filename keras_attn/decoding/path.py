"""Hypotheses extended a token a step, each on its own: the loop of greedy search and sampling."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding import arguments
from keras_attn.decoding.constraints import make_constraints
from keras_attn.decoding.ends import Ends, make_ends
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.state import StateNest
from keras_attn.decoding.steps import call_step, normalizer, peek, without_nan


class _Path(NamedTuple):
    """The loop's variables. `attention` and `state` are lists, empty when there is none.

    N hypotheses, those of an example side by side.
    """

    position: tf.Tensor  # () how many tokens were chosen
    running: tf.Tensor  # (N,) bool
    log_probability: tf.Tensor  # (N,) of the tokens so far; -inf or NaN where there is no answer
    length: tf.Tensor  # (N,)
    last: tf.Tensor  # (N,) the token chosen last
    tokens: tf.TensorArray  # L times (N,)
    token_log_probabilities: tf.TensorArray  # L times (N,)
    history: list  # of (N, L), the tokens where a constraint has to look back
    attention: list  # of tf.TensorArray, L times (N, S)
    state: list


def follow(
    choose,
    step,
    state,
    batch_size,
    start_id,
    end_id,
    max_length,
    *,
    min_length,
    prefix,
    forbidden_tokens,
    no_repeat_ngram_size,
    count=1,
) -> Hypotheses:
    """Extend each hypothesis by the token `choose(logits (N, V), position)` until it ends.

    The logits that are chosen from are -inf where a constraint forbids a token.

    The loop stops when every hypothesis has ended or has `max_length` tokens.

    Returns:
        `count` hypotheses an example, in the order of their rows: N is `count` times B.
    """
    batch_size = arguments.batch_size_of(batch_size)
    longest, limits = arguments.length_limits(max_length)
    nest = StateNest(state, batch_size)
    state = nest.expand(count)
    start = tf.repeat(arguments.start_tokens(start_id, batch_size), count)  # (N,)
    limits = tf.repeat(limits, count) if tf.convert_to_tensor(limits).shape.rank else limits
    rows = batch_size * count  # N
    first, step = peek(step, start, nest.pack(state))
    vocabulary_size = first.logits.shape[-1]
    ends = make_ends(end_id, vocabulary_size)
    constraints = make_constraints(
        ends,
        min_length,
        prefix,
        forbidden_tokens,
        no_repeat_ngram_size,
        max_length=longest,
        batch_size=batch_size,
        beam_width=count,
        vocabulary_size=vocabulary_size,
    )

    def extend(*variables):
        path = _Path(*variables)
        output = call_step(step, path.last, nest.pack(path.state))
        state = nest.flatten(output.state, path.state)
        norm = normalizer(output.logits)
        logits = without_nan(output.logits, norm)
        logits = constraints.apply(logits, path.position, path.history)
        token = tf.where(path.running, choose(logits, path.position), ends.filling)
        chosen = tf.gather(logits, token[:, None], batch_dims=1)  # (N, 1)
        chosen = tf.where(path.running, norm.log_probability(chosen)[:, 0], 0.0)
        log_probability = path.log_probability + chosen
        runs_on = tf.math.is_finite(log_probability) & ~ends.hold(token)
        return _Path(
            position=path.position + 1,
            running=path.running & runs_on & (path.position + 1 < limits),
            log_probability=log_probability,
            length=path.length + tf.cast(path.running, tf.int32),
            last=token,
            tokens=path.tokens.write(path.position, token),
            token_log_probabilities=path.token_log_probabilities.write(path.position, chosen),
            history=constraints.extend_history(path.history, path.position, token),
            attention=[buffer.write(path.position, output.attention) for buffer in path.attention],
            state=state,
        )

    def unfinished(*variables):
        path = _Path(*variables)
        # The first step is always made: a buffer in which nothing was written has no shape.
        started = path.position > 0
        return ~started | tf.reduce_any(path.running)

    begin = _Path(
        position=tf.constant(0),
        running=tf.ones([rows], tf.bool),
        log_probability=tf.zeros([rows]),
        length=tf.zeros([rows], tf.int32),
        last=start,
        tokens=buffer(start, longest),
        token_log_probabilities=buffer(tf.zeros([rows]), longest),
        history=constraints.begin_history(longest, rows),
        attention=[] if first.attention is None else [buffer(first.attention, longest)],
        state=state,
    )
    path = _Path(*tf.while_loop(unfinished, extend, begin))
    return _hypotheses(path, ends, batch_size, count)


def buffer(like, max_length) -> tf.TensorArray:
    """L tensors like `like` (N, ...), one of which is written at each step, in place.

    The number of source positions may be unknown until the first step has run: hence an array,
    whose elements take their shape from the first that is written.
    """
    return tf.TensorArray(like.dtype, size=max_length, element_shape=like.shape)


def _hypotheses(path: _Path, ends: Ends, batch_size, count: int) -> Hypotheses:
    log_probabilities = tf.reshape(path.log_probability, [batch_size, count])
    # One hypothesis that is not a number breaks its example.
    broken = tf.reduce_any(tf.math.is_nan(log_probabilities), axis=1, keepdims=True)  # (B, 1)
    log_probabilities = tf.where(broken, float("nan"), log_probabilities)
    answered = tf.math.is_finite(log_probabilities)
    lengths = tf.where(answered, tf.reshape(path.length, [batch_size, count]), 0)

    def by_hypothesis(array):  # L times (N, ...) -> (B, count, L, ...)
        rows = array.stack()  # (L, N, ...)
        sizes = zip(rows.shape, tf.unstack(tf.shape(rows)), strict=True)
        length, _, *rest = (size if known is None else known for known, size in sizes)
        rows = tf.reshape(rows, [length, batch_size, count, *rest])
        return tf.transpose(rows, [1, 2, 0, *range(3, rows.shape.rank)])

    tokens = by_hypothesis(path.tokens)
    written = tf.range(tf.shape(tokens)[2]) < lengths[:, :, None]  # (B, count, L)
    attention = None
    for rows in path.attention:
        attention = tf.where(written[..., None], by_hypothesis(rows), 0.0)
    return Hypotheses(
        tokens=tf.where(written, tokens, ends.filling),
        lengths=lengths,
        scores=log_probabilities,
        log_probabilities=log_probabilities,
        attention=attention,
        token_log_probabilities=tf.where(written, by_hypothesis(path.token_log_probabilities), 0.0),
    )
