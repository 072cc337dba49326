"""Beam search: several hypotheses an example, the best of all their extensions kept."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding import arguments, top
from keras_attn.decoding.backtrace import Ending, trace_back
from keras_attn.decoding.constraints import make_constraints
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.path import buffer
from keras_attn.decoding.penalties import coverage_penalty as coverage_of
from keras_attn.decoding.penalties import length_penalty as normalized
from keras_attn.decoding.state import StateNest
from keras_attn.decoding.steps import call_step, compute_ahead, normalizer, peek, without_nan

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
    parents: tf.TensorArray  # L times (B, W): the beam each token extended
    attention: list  # of tf.TensorArray, L times (N, S), by the beams before the step
    coverage: list  # of (N, S), the attention summed over the steps
    history: list  # of (N, L)
    state: list


def beam_search(
    step,
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
) -> Hypotheses:
    """Keep the best `beam_width` hypotheses at every step, and the best finished ones beside them.

        score(y) = log p(y) / ((5 + |y|) / 6)^alpha + beta * sum_s log(min(sum_t a_ts, 1))

    At each step the W running hypotheses of an example are extended by every token. Those
    extended by the end token are finished: they are scored, the best are kept, and their score
    never changes. Of the others the W of highest log-probability run on. Lengths and penalties
    count the end token. A hypothesis cut at `max_length` is returned only for an example that has
    no finished one.

    An example is settled when no running hypothesis can reach the worst of the finished ones that
    will be returned. Log-probabilities only fall and the coverage penalty is at most 0, so the
    most a running hypothesis of t tokens can reach is its log-probability with the length penalty
    of t + 1 or of `max_length` tokens, whichever is higher. The loop stops when all examples are
    settled, with the result it would have at the end; a smaller `n_best` stops it earlier.

    Ties: of equal extensions the one of the better beam runs on, then the one of the lower token;
    of equal finished hypotheses the one that finished first is better, then that of the better
    beam.

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
        step: `step(tokens (N,) int32, state) -> (logits (N, V), state[, attention (N, S)])`, with
            N = B * W, the beams of an example side by side.
        state: any nest of tensors with leading dimension B. It is repeated for the beams and
            reordered with them at every step, but in a dict what lies under `"memory"` is only
            repeated, once: it is the same for all beams. A step returns the state with the same
            structure, shapes and dtypes.
        batch_size: B, an int or an integer scalar tensor.
        start_id: the token fed at the first step, one for all or of shape (B,).
        end_id: the token that ends a hypothesis.
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
    rows = batch_size * width  # N

    nest = StateNest(state, batch_size)
    state = nest.expand(width)
    start = tf.repeat(arguments.start_tokens(start_id, batch_size), width)  # (N,)
    first, step = peek(step, start, nest.pack(state))
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
        beam_width=width,
        vocabulary_size=vocabulary_size,
    )
    cover = _cover(beta, source_mask, first.attention, width)
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
        ends = norm.log_probability(tf.gather(logits, [end_id], axis=1))  # (N, 1)
        ends = _add(running, tf.reshape(ends, [batch_size, width]))
        candidates = Ending(
            scores=tf.where(ends > _NEVER, normalized(ends, length, alpha) + penalty, _NEVER),
            log_probabilities=ends,
            lengths=tf.fill([batch_size, width], length),
            beams=tf.broadcast_to(tf.range(width), [batch_size, width]),
        )
        finished = beams.finished.join(candidates).best(kept)

        running, parents, tokens = _continue(running, logits, norm, end_id)
        attainable = _attainable(running[:, 0], length, limits, alpha)
        settled = (
            (running[:, 0] == _NEVER) | (finished.scores[:, -1] >= attainable) | (length >= limits)
        )
        parent_rows = tf.range(batch_size)[:, None] * width + parents
        parent_rows = tf.reshape(parent_rows, [rows])
        last = tf.reshape(tokens, [rows])
        history = [tf.gather(chosen, parent_rows) for chosen in beams.history]
        return _Beams(
            position=length,
            settled=settled,
            broken=broken,
            running=tf.where(settled[:, None], _NEVER, running),
            cut=tf.where(tf.reshape(length == limits, [-1, 1]), running, beams.cut),
            finished=finished,
            last=last,
            tokens=beams.tokens.write(beams.position, tokens),
            parents=beams.parents.write(beams.position, parents),
            attention=[kept.write(beams.position, output.attention) for kept in beams.attention],
            coverage=_coverage_after(beams, coverage, parent_rows),
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
        parents=buffer(tf.zeros([batch_size, width], tf.int32), longest),
        attention=[] if first.attention is None else [buffer(first.attention, longest)],
        coverage=cover.begin(first.attention, rows),
        history=constraints.begin_history(longest, rows),
        state=state,
    )
    if ahead:
        begin = extend(*begin)
    beams = _Beams(*tf.while_loop(unsettled, extend, begin))
    ending, written = _endings(beams, limits, alpha, cover, kept)
    return _hypotheses(beams, ending, written, end_id)


class _Coverage(NamedTuple):
    """The coverage penalty of N hypotheses; nothing at all if it weighs 0."""

    beta: tf.Tensor | float
    mask: tf.Tensor | None  # (N, S)

    @property
    def counts(self) -> bool:
        return tf.get_static_value(self.beta) != 0

    def begin(self, attention, rows) -> list:
        """The attention summed over no steps: a list of (N, S), or of nothing."""
        if not self.counts:
            return []
        positions = attention.shape[1]
        return [tf.zeros([rows, tf.shape(attention)[1] if positions is None else positions])]

    def penalty(self, sums: list, shape):
        """What is added to the scores, of `shape` (B, W)."""
        if not sums:
            return tf.zeros(shape)
        return tf.reshape(coverage_of(sums[0], self.beta, self.mask), shape)


def _cover(beta, source_mask, attention, width) -> _Coverage:
    cover = _Coverage(beta, source_mask)
    if cover.counts and attention is None:
        raise ValueError(
            "A coverage penalty needs a step that returns (logits, state, attention). "
            f"Received: coverage_penalty={beta}, attention=None"
        )
    if source_mask is None:
        return cover
    mask = tf.convert_to_tensor(source_mask)
    if mask.dtype != tf.bool or mask.shape.rank != 2:
        raise ValueError(
            "source_mask must be boolean, of shape (B, S), True for the positions that exist. "
            f"Received: source_mask.dtype={mask.dtype.name}, source_mask.shape={mask.shape}"
        )
    return _Coverage(beta, tf.repeat(mask, width, axis=0))


def _coverage_after(beams: _Beams, sums: list, parent_rows) -> list:
    """The attention summed over the steps; that of a settled example stays as it was."""
    settled = tf.repeat(beams.settled, beams.running.shape[1])[:, None]  # (N, 1)
    return [
        tf.where(settled, before, tf.gather(total, parent_rows))
        for before, total in zip(beams.coverage, sums, strict=True)
    ]


def _continue(running, logits, norm, end_id):
    """The W best extensions that do not end.

    A tie goes to the better beam, then to the lower token: `top_k` keeps the order of equals, and
    the candidates are ordered by beam, then by logit, then by token.

    Args:
        running: (B, W) log-probabilities.
        logits: (N, V), constrained.
        norm: the normalizer of the model's own logits.
        end_id: the token that is left out.

    Returns:
        Log-probabilities, parents and tokens, (B, W) each; an empty beam has end tokens.
    """
    batch_size, width = tf.shape(running)[0], running.shape[1]
    # One of them may be the end token: the others suffice to fill every beam.
    count = top.at_most(width + 1, logits)
    logits, tokens = top.top_k(logits, count)  # (N, C)
    extensions = tf.where(tokens == end_id, _NEVER, norm.log_probability(logits))
    extensions = _add(running[:, :, None], tf.reshape(extensions, [batch_size, width, count]))
    extensions = tf.reshape(extensions, [batch_size, width * count])
    running, order = tf.math.top_k(extensions, width)  # (B, W)
    tokens = tf.gather(tf.reshape(tokens, [batch_size, width * count]), order, batch_dims=1)
    return running, order // count, tf.where(running > _NEVER, tokens, end_id)


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


def _endings(beams: _Beams, limits, alpha, cover: _Coverage, kept):
    """The finished hypotheses of an example, or if it has none those cut at `max_length`.

    Returns:
        The endings (B, K) and how many tokens of each stand in the buffers (B, K).
    """
    shape = tf.shape(beams.cut)
    lengths = tf.broadcast_to(tf.reshape(limits, [-1, 1]), shape)
    scores = normalized(beams.cut, lengths, alpha) + cover.penalty(beams.coverage, shape)
    cut = Ending(
        scores=tf.where(beams.cut > _NEVER, scores, _NEVER),
        log_probabilities=beams.cut,
        lengths=lengths,
        beams=tf.broadcast_to(tf.range(shape[1]), shape),
    ).best(kept)
    finished = beams.finished.scores[:, 0] > _NEVER  # (B,)
    ending = beams.finished.where(finished, cut)
    return ending, ending.lengths - tf.cast(finished, tf.int32)[:, None]


def _hypotheses(beams: _Beams, ending: Ending, written, end_id) -> Hypotheses:
    broken = beams.broken[:, None]
    answered = (ending.scores > _NEVER) & ~broken  # (B, K)
    lengths = tf.where(answered, ending.lengths, 0)
    log_probabilities = tf.where(answered, ending.log_probabilities, _NEVER)
    tokens, origin = trace_back(
        beams.tokens.stack(),
        beams.parents.stack(),
        tf.where(answered, written, 0),
        ending.beams,
        beams.position,
        end_id,
    )  # (B, K, L)
    inside = tf.range(tf.shape(tokens)[2]) < lengths[:, :, None]
    nan, width = float("nan"), beams.running.shape[1]
    return Hypotheses(
        tokens=tf.where(inside, tokens, end_id),
        lengths=lengths,
        scores=tf.where(broken, nan, ending.scores),
        log_probabilities=tf.where(broken, nan, log_probabilities),
        attention=_alignments(beams.attention, origin, inside, width),
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
