"""Beam search: several hypotheses an example, the best of all their extensions kept."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding import arguments, top
from keras_attn.decoding.backtrace import Ending, trace_back
from keras_attn.decoding.constraints import make_constraints
from keras_attn.decoding.coverage import Coverage, coverage_after, make_coverage
from keras_attn.decoding.ends import Ends, make_ends
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.path import buffer
from keras_attn.decoding.penalties import length_penalty as normalized
from keras_attn.decoding.state import StateNest
from keras_attn.decoding.steps import call_step, compute_ahead, normalizer, peek, without_nan
from keras_attn.protocols import StepFunction

_NEVER = -float("inf")


class _Beams(NamedTuple):
    """The loop's variables: W running hypotheses and K finished ones for each of B examples.

    Lists are empty when there is no attention, no coverage penalty, nothing to remember.
    """

    position: tf.Tensor  # () how many tokens were chosen
    settled: tf.Tensor  # (B,) bool: no later step can change the example's answer
    broken: tf.Tensor  # (B,) bool: a logit was not a number
    running: tf.Tensor  # (B, W) log-probabilities, best first; -inf where a beam is empty
    cut: tf.Tensor  # (B, W) what ran when the example's `max_length` was reached; -inf before
    finished: Ending  # of (B, K), best first
    last: tf.Tensor  # (N,) the tokens chosen last
    tokens: tf.TensorArray  # L times (B, W)
    token_log_probabilities: tf.TensorArray  # L times (B, W)
    parents: tf.TensorArray  # L times (B, W): the beam each token extended
    attention: list  # of tf.TensorArray, L times (N, S), by the beams before the step
    coverage: list  # of (N, S), the attention summed over the steps
    history: list  # of (N, L)
    state: list


def beam_search(
    step: StepFunction,
    state,
    batch_size,
    start_id,
    end_id,
    max_length,
    beam_width=4,
    length_penalty=0.0,
    coverage_penalty=0.0,
    *,
    n_best=None,
    min_length=0,
    prefix=None,
    forbidden_tokens=None,
    no_repeat_ngram_size=0,
    source_mask=None,
    end_rule="finished",
) -> Hypotheses:
    """Keep the best `beam_width` hypotheses at every step, and the best finished ones beside them.

        score(y) = log p(y) / ((5 + |y|) / 6)^alpha + beta * sum_s log(min(sum_t a_ts, 1))

    At each step the W running hypotheses of an example are extended by every token. Those
    extended by an end token are finished: they are scored, the best are kept, and their score
    never changes. Of the others the W of highest log-probability run on. Lengths and penalties
    count the end token.

    A hypothesis that still runs at `max_length` is cut there and scored by the same equation.
    `end_rule` says what that is worth. With "finished" a cut hypothesis is returned only for an
    example that has no finished one. With "running" the cut ones compete with the finished ones by
    their scores, as at the end of the searches of TensorFlow Addons, OpenNMT-tf and KerasHub: where
    ends are rare, the likeliest hypothesis is often one without an end.

    An example is settled when no running hypothesis can reach the worst of the finished ones that
    will be returned. Log-probabilities only fall and the coverage penalty is at most 0, so the
    most a running hypothesis of t tokens can reach, ended or cut, is its log-probability with the
    length penalty of t + 1 or of `max_length` tokens, whichever is higher. The loop stops when all
    examples are settled, with the result it would have at the end; a smaller `n_best` stops it
    earlier.

    Ties: of equal extensions the one of the better beam runs on, then the one of the lower token;
    of equal finished hypotheses the one that finished first is better, then that of the better
    beam, then that of the lower end token. A finished one is better than an equal one that was cut.

    Logits that are NaN or +inf (or a coverage penalty that is NaN) break the example: each of its
    slots has length 0 and score NaN. Logits of -inf are tokens that cannot be; a beam with no
    other dies, and an example of which all beams died without an end has length 0 and score -inf.
    The other examples of the batch are untouched.

    Tokens are found at the end, by following back-pointers; attention is gathered once, then.

    Example:

    ```python
    import tensorflow as tf
    from keras_attn.decoding import beam_search

    logits = tf.math.log([[0.0, 0.2, 0.8], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])

    def step(tokens, state):
        return tf.gather(logits, tokens), state

    found = beam_search(step, {}, 1, start_id=0, end_id=1, max_length=5, beam_width=2)
    found.tokens[0]  # [[2, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
    found.lengths[0]  # [2, 1]
    found.scores[0]  # [log(0.8 * 0.9), log(0.2)]
    ```

    Args:
        step: `step(tokens (N,) int32, state) -> (logits (N, V), state[, attention (N, S)])`, a
            `keras_attn.protocols.StepFunction`; N = B * W, the beams of an example side by side.
        state: any nest of tensors with leading dimension B. It is repeated for the beams and
            reordered with them at every step, but in a dict what lies under `"memory"` is only
            repeated, once: it is the same for all beams. A step returns the state with the same
            structure, shapes and dtypes.
        batch_size: B, an int or an integer scalar tensor.
        start_id: the token fed at the first step, one for all or of shape (B,).
        end_id: the token that ends a hypothesis, or several such tokens (E,), each of which ends
            one. With None no token does: every answer has `max_length` tokens and is the best of
            those that ran, whatever the `end_rule`.
        max_length: the most tokens a hypothesis may have, the end token counted; an int or an
            integer scalar tensor, or integers (B,), one for each example. L is the largest.
        beam_width: W.
        length_penalty: alpha; 0 for none.
        coverage_penalty: beta, at least 0; 0 for none. It needs a step that returns attention.
        n_best: how many hypotheses to return, at most and by default `beam_width`.
        min_length: the fewest tokens a finished hypothesis may have, the end token counted.
        prefix: tokens every hypothesis must start with, (P,) or (B, P); where below 0, any token.
            It comes before the other constraints, which do not apply to its tokens.
        forbidden_tokens: ids (F,) that are never chosen.
        no_repeat_ngram_size: n, no n tokens in a row may come twice in a hypothesis; 0 for none.
        source_mask: boolean (B, S), the source positions the coverage penalty counts; without it,
            those that got any attention (see `keras_attn.decoding.coverage_penalty`).
        end_rule: "finished" or "running", see above.

    A constraint takes tokens away without renormalising: log-probabilities are the model's. An
    example whose constraints leave no hypothesis has none: length 0 and score -inf.

    Returns:
        `Hypotheses`, best first, of `n_best` slots an example.

    Raises:
        ValueError: if an argument is out of range, or a state, logits or attention have a wrong
            shape; as far as shapes are known at tracing.

    Reference: Wu et al., "Google's Neural Machine Translation System", 2016, arXiv:1609.08144,
    section 7.
    """
    batch_size = arguments.batch_size_of(batch_size)
    longest, limits = arguments.length_limits(max_length)
    width = arguments.static_integer_at_least(beam_width, 1, "beam_width")
    kept = width if n_best is None else arguments.static_integer_at_least(n_best, 1, "n_best")
    if kept > width:
        raise ValueError(f"n_best must not exceed beam_width={width}. Received: n_best={kept}")
    alpha = arguments.number(length_penalty, "length_penalty")
    beta = arguments.number(coverage_penalty, "coverage_penalty", minimum=0.0)
    end_rule = arguments.end_rule(end_rule)
    rows = batch_size * width  # N

    nest = StateNest(state, batch_size)
    state = nest.expand(width)
    start = tf.repeat(arguments.start_tokens(start_id, batch_size), width)  # (N,)
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
        beam_width=width,
        vocabulary_size=vocabulary_size,
    )
    cover = make_coverage(beta, source_mask, first.attention, width)
    ahead = cover.counts and first.attention.shape[1] is None
    if ahead:  # the attention is summed up in a tensor, whose size only the first step can tell
        first, step = compute_ahead(step, start, nest.pack(state))

    def extend(*variables):
        beams = _Beams(*variables)
        output = call_step(step, beams.last, nest.pack(beams.state))
        state = nest.flatten(output.state, beams.state)
        coverage = [total + output.attention for total in beams.coverage]
        penalty = cover.penalty(coverage, [batch_size, width])

        norm = normalizer(output.logits)
        alive = beams.running > _NEVER  # (B, W)
        unknown = tf.math.is_nan(tf.reshape(norm.log_sum, [batch_size, width]) + penalty)
        broken = beams.broken | tf.reduce_any(alive & unknown, axis=1)
        running = tf.where(broken[:, None], _NEVER, beams.running)
        logits = without_nan(output.logits, norm)
        logits = constraints.apply(logits, beams.position, beams.history)

        length = beams.position + 1
        ended = _end(running, logits, norm, ends, length, alpha, penalty)
        finished = beams.finished.join(ended).best(kept)

        running, parents, tokens, chosen = _continue(running, logits, norm, ends)
        attainable = _attainable(running[:, 0], length, limits, alpha)
        settled = (
            (running[:, 0] == _NEVER) | (finished.scores[:, -1] >= attainable) | (length >= limits)
        )
        parent_rows = tf.range(batch_size)[:, None] * width + parents
        parent_rows = tf.reshape(parent_rows, [rows])
        last = tf.reshape(tokens, [rows])
        history = [tf.gather(written, parent_rows) for written in beams.history]
        return _Beams(
            position=length,
            settled=settled,
            broken=broken,
            running=tf.where(settled[:, None], _NEVER, running),
            cut=tf.where(tf.reshape(length == limits, [-1, 1]), running, beams.cut),
            finished=finished,
            last=last,
            tokens=beams.tokens.write(beams.position, tokens),
            token_log_probabilities=beams.token_log_probabilities.write(beams.position, chosen),
            parents=beams.parents.write(beams.position, parents),
            attention=[kept.write(beams.position, output.attention) for kept in beams.attention],
            coverage=coverage_after(
                beams.coverage, coverage, tf.repeat(beams.settled, width), parent_rows
            ),
            history=constraints.extend_history(history, beams.position, last),
            state=nest.reorder(state, parent_rows),
        )

    def unsettled(*variables):
        beams = _Beams(*variables)
        # The first step is always made: a buffer in which nothing was written has no shape.
        started = beams.position > 0
        return ~started | ~tf.reduce_all(beams.settled)

    one_each = tf.broadcast_to(tf.one_hot(0, width, 0.0, _NEVER), [batch_size, width])
    begin = _Beams(
        position=tf.constant(0),
        settled=tf.zeros([batch_size], tf.bool),
        broken=tf.zeros([batch_size], tf.bool),
        running=one_each,
        cut=tf.fill([batch_size, width], _NEVER),
        finished=Ending.none(batch_size, kept),
        last=start,
        tokens=buffer(tf.zeros([batch_size, width], tf.int32), longest),
        token_log_probabilities=buffer(tf.zeros([batch_size, width]), longest),
        parents=buffer(tf.zeros([batch_size, width], tf.int32), longest),
        attention=[] if first.attention is None else [buffer(first.attention, longest)],
        coverage=cover.begin(first.attention, rows),
        history=constraints.begin_history(longest, rows),
        state=state,
    )
    if ahead:
        begin = extend(*begin)
    beams = _Beams(*tf.while_loop(unsettled, extend, begin))
    cut = _cut(beams, limits, alpha, cover, end_rule)
    return _hypotheses(beams, beams.finished.join(cut).best(kept), ends)


def _end(running, logits, norm, ends: Ends, length, alpha, penalty) -> Ending:
    """The finished hypotheses of `length` tokens: each beam with each end token, (B, W * E).

    They are ordered by beam, then by token.

    Args:
        running: (B, W) log-probabilities.
        logits: (N, V), constrained.
        norm: the normalizer of the model's own logits.
        penalty: (B, W), that of the coverage.
    """
    batch_size, width = tf.shape(running)[0], running.shape[1]
    shape = [batch_size, width, ends.count]
    chosen = norm.log_probability(tf.gather(logits, ends.tokens, axis=1))  # (N, E)
    chosen = tf.reshape(chosen, shape)
    log_probabilities = _add(running[:, :, None], chosen)
    scores = normalized(log_probabilities, length, alpha) + penalty[:, :, None]
    ending = Ending(
        scores=tf.where(log_probabilities > _NEVER, scores, _NEVER),
        log_probabilities=log_probabilities,
        lengths=tf.fill(shape, length),
        written=tf.fill(shape, length - 1),
        beams=tf.broadcast_to(tf.range(width)[:, None], shape),
        tokens=tf.broadcast_to(ends.tokens, shape),
        token_log_probabilities=chosen,
    )
    return Ending(*(tf.reshape(each, [batch_size, width * ends.count]) for each in ending))


def _continue(running, logits, norm, ends: Ends):
    """The W best extensions that do not end.

    A tie goes to the better beam, then to the lower token: `top_k` keeps the order of equals, and
    the candidates are ordered by beam, then by logit, then by token.

    Args:
        running: (B, W) log-probabilities.
        logits: (N, V), constrained.
        norm: the normalizer of the model's own logits.
        ends: the tokens that are left out.

    Returns:
        Log-probabilities, parents, tokens and those tokens' log-probabilities, (B, W) each; in an
        empty beam the token is the filling one.
    """
    batch_size, width = tf.shape(running)[0], running.shape[1]
    # E of them may be end tokens: the others suffice to fill every beam.
    count = top.at_most(width + ends.count, logits)
    logits, tokens = top.top_k(logits, count)  # (N, C)
    chosen = tf.where(ends.hold(tokens), _NEVER, norm.log_probability(logits))
    extensions = _add(running[:, :, None], tf.reshape(chosen, [batch_size, width, count]))
    extensions = tf.reshape(extensions, [batch_size, width * count])
    running, order = tf.math.top_k(extensions, width)  # (B, W)
    tokens, chosen = (
        tf.gather(tf.reshape(each, [batch_size, width * count]), order, batch_dims=1)
        for each in (tokens, chosen)
    )
    return running, order // count, tf.where(running > _NEVER, tokens, ends.filling), chosen


def _add(running, extension):
    """Log-probabilities of extended beams; an empty beam stays empty, whatever its logits."""
    return tf.where(running > _NEVER, running + extension, _NEVER)


def _attainable(running, length, max_length, alpha):
    """A bound on the score of all that running hypotheses of `length` tokens can grow to.

    Growing only lowers the log-probability, and the coverage penalty is at most 0. The length
    penalty is monotonic in the length, so the bound lies at the next length (alpha < 0) or at the
    last (alpha > 0).
    """
    shortest = normalized(running, tf.minimum(length + 1, max_length), alpha)
    return tf.maximum(shortest, normalized(running, max_length, alpha))


def _cut(beams: _Beams, limits, alpha, cover: Coverage, end_rule: str) -> Ending:
    """The hypotheses cut at `max_length` (B, W) that the rule lets compete with the finished."""
    shape = tf.shape(beams.cut)
    lengths = tf.broadcast_to(tf.reshape(limits, [-1, 1]), shape)
    scores = normalized(beams.cut, lengths, alpha) + cover.penalty(beams.coverage, shape)
    competing = beams.cut > _NEVER
    if end_rule == "finished":
        competing &= beams.finished.scores[:, :1] == _NEVER
    return Ending(
        scores=tf.where(competing, scores, _NEVER),
        log_probabilities=beams.cut,
        lengths=lengths,
        written=lengths,
        beams=tf.broadcast_to(tf.range(shape[1]), shape),
        tokens=tf.zeros(shape, tf.int32),
        token_log_probabilities=tf.zeros(shape),
    )


def _hypotheses(beams: _Beams, ending: Ending, ends: Ends) -> Hypotheses:
    broken = beams.broken[:, None]
    answered = (ending.scores > _NEVER) & ~broken  # (B, K)
    lengths = tf.where(answered, ending.lengths, 0)
    log_probabilities = tf.where(answered, ending.log_probabilities, _NEVER)
    paths = trace_back(
        beams.tokens.stack(),
        beams.token_log_probabilities.stack(),
        beams.parents.stack(),
        ending,
        beams.position,
    )  # (B, K, L)
    inside = tf.range(tf.shape(paths.tokens)[2]) < lengths[:, :, None]
    nan, width = float("nan"), beams.running.shape[1]
    return Hypotheses(
        tokens=tf.where(inside, paths.tokens, ends.filling),
        lengths=lengths,
        scores=tf.where(broken, nan, ending.scores),
        log_probabilities=tf.where(broken, nan, log_probabilities),
        attention=_alignments(beams.attention, paths.beams, inside, width),
        token_log_probabilities=tf.where(inside, paths.token_log_probabilities, 0.0),
    )


def _alignments(attention: list, origin, inside, width):
    """Gather the attention rows of the beams that chose each token, once: (B, K, L, S)."""
    for rows in attention:
        rows = rows.stack()  # (L, N, S)
        length, count, positions = tf.unstack(tf.shape(rows))
        example = tf.range(tf.shape(origin)[0])[:, None, None]
        row = tf.range(length) * count + example * width + origin  # (B, K, L)
        rows = tf.gather(tf.reshape(rows, [length * count, positions]), row)
        return tf.where(inside[..., None], rows, 0.0)
    return None
