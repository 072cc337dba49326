"""The loop of a cell that attends over a memory, forwards and, by hand, backwards.

What is the cell's own stands in `ops.attending_cells`, what is the score's in
`ops.attention_scoring`; the loop reads a cell's first state, h, and the query from it.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import masks
from keras_attn.ops.attending_cells import AttendingGRU, AttendingLSTM
from keras_attn.ops.attention_scoring import AdditiveScoring, ProductScoring
from keras_attn.ops.chunks import before_each_step
from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.products import sum_of_outer_products, sum_of_rows
from keras_attn.ops.scan import scan
from keras_attn.ops.shapes import sizes

Cell = AttendingGRU | AttendingLSTM
Scoring = type[AdditiveScoring] | type[ProductScoring]


class Given(NamedTuple):
    """What the loop reads, and is differentiated by but for the masks; sequences time-major."""

    projected: tf.Tensor  # (T, B, blocks * units)
    initial_states: tuple  # of the cell, (B, units) as a rule
    memory: tf.Tensor  # (B, S, m)
    keys: tf.Tensor  # in the layout of the scoring
    score_vector: tf.Tensor | None  # (a,)
    query_kernel: tf.Tensor | None  # (units, a)
    query_bias: tf.Tensor | None  # (a,)
    direct_kernel: tf.Tensor  # the cell's own of h, (units, width)
    direct_bias: tf.Tensor | None  # (width,)
    context_kernel: tf.Tensor  # (m, blocks * units)
    weights: tuple  # a nest of what else the cell has
    mask: tf.Tensor | None  # (T, B, 1)
    memory_mask: tf.Tensor | None  # (B, S)


def run_attending(cell: Cell, scoring: Scoring, given: Given, saves: bool) -> tuple:
    """Hidden states, contexts and alignments of all steps, (T, B, ...), and the last states."""
    # XLA takes 5 % off this and seconds to compile each shape: not worth it.
    saving_nothing = None if saves else _outputs
    run = with_gradient(_forward, _backward, (cell, scoring), saving_nothing=saving_nothing)
    hidden, contexts, alignments, *last = run(given)
    return hidden, contexts, alignments, last


class _Turned(NamedTuple):
    """The kernels and the memory transposed, once before the loop backwards."""

    memory: tf.Tensor  # (B, m, S)
    query_kernel: tf.Tensor | None
    direct_kernel: tf.Tensor
    context_kernel: tf.Tensor
    weights: tuple

    @classmethod
    def of(cls, cell, given):
        query_kernel = given.query_kernel
        return cls(
            memory=tf.transpose(given.memory, [0, 2, 1]),
            query_kernel=None if query_kernel is None else tf.transpose(query_kernel),
            direct_kernel=tf.transpose(given.direct_kernel),
            context_kernel=tf.transpose(given.context_kernel),
            weights=cell.turned(given.weights),
        )


def _forward(cell, scoring, given):
    """Of all steps hidden states, contexts and alignments, and the last states; what is saved."""
    ((hidden, *others), *attended, gates, queries), last = _loop(
        cell, scoring, given, lambda states, *rest: (states, *rest)
    )
    return (hidden, *attended, *last), (tuple(others), gates, queries)


def _outputs(cell, scoring, given):
    """Of all steps hidden states, contexts and alignments, and the last states."""
    (hidden, *attended), last = _loop(
        cell,
        scoring,
        given,
        lambda states, context, alignment, gates, query: (states[0], context, alignment),
    )
    return (hidden, *attended, *last)


def _loop(cell, scoring, given, kept):
    """What is `kept(states, context, alignment, gates, query)` of all steps; the last states."""

    def step(x, states, mask=None):
        hidden = states[0]
        query = scoring.query(hidden, given)
        alignment = masks.masked_softmax(scoring.scores(hidden, query, given), given.memory_mask)
        alignment = tf.cast(alignment, given.memory.dtype)
        context = tf.matmul(alignment[:, None], given.memory)[:, 0]
        x = x + tf.matmul(context, given.context_kernel)
        products = tf.matmul(hidden, given.direct_kernel)
        if given.direct_bias is not None:
            products += given.direct_bias
        states, gates = cell.step(x, products, states, given.weights, mask)
        return states, context, alignment, gates, query

    def free_step(x, states):
        results = step(x, states)
        return kept(*results), results[0]

    def masked_step(moment, held):
        (x, mask), (states, old_context) = moment, held
        states, context, *others = step(x, states, mask)
        context = tf.where(mask, context, old_context)
        return kept(states, context, *others), (states, context)

    if given.mask is None:
        collected, last = scan(free_step, given.projected, given.initial_states, time_major=True)
    else:
        start = given.initial_states, _zeros_like_one_position(given.memory)
        moments = given.projected, given.mask
        collected, (last, _) = scan(masked_step, moments, start, time_major=True)
    states, contexts, alignments, *saved = collected
    return (states, contexts, _over_positions(alignments, given), *saved), last


def _backward(cell, scoring, given, outputs, saved, output_gradients):
    hidden, contexts, alignments, *_ = outputs
    others, gates, queries = saved
    d_hidden, d_contexts, d_alignments, *d_last = output_gradients
    before = tuple(
        before_each_step(initial, states, reverse=False)
        for initial, states in zip(given.initial_states, (hidden, *others), strict=True)
    )
    kept = before, others, gates, queries, alignments
    moments = d_hidden, d_contexts, d_alignments, kept
    turned = _Turned.of(cell, given)
    start = tuple(d_last), scoring.zero_sums(given)

    def step(moment, carried, mask=None):
        d_hidden, d_context, d_alignment, kept = moment
        (d_state, *d_states), sums = carried
        d_states = (d_state + d_hidden, *d_states)
        d_attended = d_context, d_alignment
        collected, d_states, sums = _step_gradient(
            cell, scoring, given, turned, d_states, d_attended, kept, mask, sums
        )
        return collected, (d_states, sums)

    def masked_step(moment, carried):
        (d_hidden, d_context, d_alignment, kept), mask = moment
        carried, d_held_context = carried
        d_context += d_held_context
        factors = tf.cast(mask, d_context.dtype)
        seen = factors * d_context, factors * d_alignment
        collected, carried = step((d_hidden, *seen, kept), carried, mask)
        return collected, (carried, d_context - seen[0])

    if given.mask is None:
        run = scan(step, moments, start, reverse=True, time_major=True)
        collected, (d_initial, sums) = run
    else:
        start = start, _zeros_like_one_position(given.memory)
        moments = moments, given.mask
        run = scan(masked_step, moments, start, reverse=True, time_major=True)
        collected, ((d_initial, sums), _) = run
    d_products, d_others, d_query, d_contexts, d_scores = collected
    d_scores = _over_positions(d_scores, given)

    d_x = cell.of_inputs(d_products, d_others)  # (T, B, blocks * units)
    return Given(
        projected=d_x,
        initial_states=d_initial,
        memory=tf.einsum("tbs,tbm->bsm", alignments, d_contexts),
        **scoring.gradients(sums, d_scores, d_query, before[0], given),
        direct_kernel=sum_of_outer_products(before[0], d_products),
        direct_bias=None if given.direct_bias is None else sum_of_rows(d_products),
        context_kernel=sum_of_outer_products(contexts, d_x),
        weights=cell.weight_gradients(given.weights, before, others, gates, d_products, d_others),
        mask=None,
        memory_mask=None,
    )


def _step_gradient(cell, scoring, given, turned, d_states, d_attended, kept, mask, sums):
    """One step backwards.

    Args:
        d_states: gradients of the states after the step.
        d_attended: of its context and its alignment.
        kept: the states before it, those but h after it, its gates, query and alignment.
        mask: boolean (B, 1), or None; False where the step held the states.
        sums: of the scoring, over the steps after it.

    Returns:
        Gradients of this step's products, of what else the cell collects, of query, context and
        scores;
        of the states before; the sums with this step in them.
    """
    (d_context, d_alignment), (before, others, gates, query, alignment) = d_attended, kept
    slopes = cell.slopes(before, others, gates, mask)
    d_products, d_others, d_before = cell.step_gradient(d_states, slopes, turned.weights)
    d_x = cell.of_inputs(d_products, d_others)
    d_context += tf.matmul(d_x, turned.context_kernel)
    d_alignment += tf.matmul(d_context[:, None], turned.memory)[:, 0]  # (B, S)

    precision = wide_dtype(given.keys.dtype)
    d_alignment, precise = tf.cast(d_alignment, precision), tf.cast(alignment, precision)
    mean = tf.reduce_sum(precise * d_alignment, axis=-1, keepdims=True)
    d_scores = precise * (d_alignment - mean)  # (B, S)

    d_query, d_by_score, sums = scoring.step_gradient(
        d_scores, before[0], query, given, turned.query_kernel, sums
    )
    d_hidden = tf.matmul(d_products, turned.direct_kernel) + d_by_score
    if d_before[0] is not None:
        d_hidden += d_before[0]
    return (d_products, d_others, d_query, d_context, d_scores), (d_hidden, *d_before[1:]), sums


def _over_positions(collected, given):
    """`collected` (T, B, S) with its shape, which a loop without steps cannot tell."""
    return tf.reshape(collected, [*sizes(given.projected)[:2], tf.shape(given.memory)[1]])


def _zeros_like_one_position(memory):
    """(B, m), also of a memory without positions."""
    return tf.zeros([tf.shape(memory)[0], memory.shape[-1]], memory.dtype)
