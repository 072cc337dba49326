"""One hypothesis an example, extended by a token a step: the loop of greedy search and sampling."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding import arguments
from keras_attn.decoding.constraints import make_constraints
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.state import StateNest
from keras_attn.decoding.steps import call_step, normalizer, peek, without_nan


class _Path(NamedTuple):
    """The loop's variables. `attention` and `state` are lists, empty when there is none."""

    position: tf.Tensor  # () how many tokens were chosen
    running: tf.Tensor  # (B,) bool
    log_probability: tf.Tensor  # (B,) of the tokens so far; -inf or NaN where there is no answer
    length: tf.Tensor  # (B,)
    last: tf.Tensor  # (B,) the token chosen last
    tokens: tf.TensorArray  # L times (B,)
    history: list  # of (B, L), the tokens where a constraint has to look back
    attention: list  # of tf.TensorArray, L times (B, S)
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
) -> Hypotheses:
    """Extend each example by the token `choose(logits (B, V), position)` until it ends.

    The logits that are chosen from are -inf where a constraint forbids a token.

    The loop stops when every example has ended or has `max_length` tokens.
    """
    batch_size = arguments.batch_size_of(batch_size)
    longest, limits = arguments.length_limits(max_length)
    nest = StateNest(state, batch_size)
    start = arguments.start_tokens(start_id, batch_size)
    first, step = peek(step, start, nest.pack(nest.leaves))
    vocabulary_size = first.logits.shape[-1]
    end_id = arguments.token_id(end_id, "end_id", vocabulary_size)
    constraints = make_constraints(
        end_id,
        min_length,
        prefix,
        forbidden_tokens,
        no_repeat_ngram_size,
        max_length=longest,
        batch_size=batch_size,
        beam_width=1,
        vocabulary_size=vocabulary_size,
    )

    def extend(*variables):
        path = _Path(*variables)
        output = call_step(step, path.last, nest.pack(path.state))
        state = nest.flatten(output.state, path.state)
        norm = normalizer(output.logits)
        logits = without_nan(output.logits, norm)
        logits = constraints.apply(logits, path.position, path.history)
        token = tf.where(path.running, choose(logits, path.position), end_id)
        chosen = tf.gather(logits, token[:, None], batch_dims=1)  # (B, 1)
        chosen = norm.log_probability(chosen)[:, 0]
        log_probability = path.log_probability + tf.where(path.running, chosen, 0.0)
        runs_on = tf.math.is_finite(log_probability) & (token != end_id)
        return _Path(
            position=path.position + 1,
            running=path.running & runs_on & (path.position + 1 < limits),
            log_probability=log_probability,
            length=path.length + tf.cast(path.running, tf.int32),
            last=token,
            tokens=path.tokens.write(path.position, token),
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
        running=tf.ones([batch_size], tf.bool),
        log_probability=tf.zeros([batch_size]),
        length=tf.zeros([batch_size], tf.int32),
        last=start,
        tokens=buffer(start, longest),
        history=constraints.begin_history(longest, batch_size),
        attention=[] if first.attention is None else [buffer(first.attention, longest)],
        state=nest.leaves,
    )
    return _hypotheses(_Path(*tf.while_loop(unfinished, extend, begin)), end_id)


def buffer(like, max_length) -> tf.TensorArray:
    """L tensors like `like` (N, ...), one of which is written at each step, in place.

    The number of source positions may be unknown until the first step has run: hence an array,
    whose elements take their shape from the first that is written.
    """
    return tf.TensorArray(like.dtype, size=max_length, element_shape=like.shape)


def _hypotheses(path: _Path, end_id) -> Hypotheses:
    answered = tf.math.is_finite(path.log_probability)
    length = tf.where(answered, path.length, 0)
    tokens = tf.transpose(path.tokens.stack())  # (B, L)
    written = tf.range(tf.shape(tokens)[1]) < length[:, None]  # (B, L)
    tokens = tf.where(written, tokens, end_id)
    attention = None
    for rows in path.attention:
        attention = tf.transpose(rows.stack(), [1, 0, 2])  # (B, L, S)
        attention = tf.where(written[:, :, None], attention, 0.0)[:, None]
    return Hypotheses(
        tokens=tokens[:, None],
        lengths=length[:, None],
        scores=path.log_probability[:, None],
        log_probabilities=path.log_probability[:, None],
        attention=attention,
    )
