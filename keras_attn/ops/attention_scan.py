"""A GRU that attends over a memory at every step, with a gradient written by hand."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import masks
from keras_attn.ops.additive_attention import normalised
from keras_attn.ops.attention_scoring import AdditiveScoring, ProductScoring
from keras_attn.ops.chunks import before_each_step
from keras_attn.ops.gru_gradient import form_of, of_projection
from keras_attn.ops.hand_gradient import with_gradient
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.products import sum_of_outer_products, sum_of_rows, times
from keras_attn.ops.scan import scan
from keras_attn.ops.shapes import sizes


def attention_scan(
    inputs,
    memory,
    keys,
    initial_state,
    *,
    kernel,
    recurrent_kernel,
    query_kernel=None,
    score_vector=None,
    bias=None,
    recurrent_bias=None,
    query_bias=None,
    score_scale=None,
    reset_after: bool = False,
    mask=None,
    memory_mask=None,
    saves: bool = True,
):
    """Run a GRU that attends to a memory over a sequence.

    With the memory h, its keys k and the state s of the step before, at every step

        e_j = v . tanh(s W_q + b_q + k_j),  a = softmax(e),  c = sum_j a_j h_j,
        s' = GRU([x; c], s)

    or, without `query_kernel` and `score_vector`, with the scores of Luong et al., `e_j = s . k_j`.

    The gradient is ours: the loop backwards carries no more than the gradient of s and sums that
    of additive keys; the gradient of each weight and of the memory is one product after the loop.
    Kept for it are states, gates and alignments.

    Args:
        inputs: x, (B, T, d).
        memory: h, (B, S, m).
        keys: k, (B, S, a), the memory projected; a = units for the product with the state.
        initial_state: (B, units).
        kernel: of [x; c], (d + m, 3 * units), blocks z, r, h.
        recurrent_kernel: of s, (units, 3 * units).
        query_kernel: W_q, (units, a), or None.
        score_vector: v, (a,), or None with `query_kernel`.
        bias: (3 * units,) or None.
        recurrent_bias: (3 * units,) or None; needs `reset_after`.
        query_bias: b_q, (a,) or None.
        score_scale: g, a scalar, or None; with it `g v / |v|` is in the place of v.
        reset_after: whether the GRU is that of `gru_step_reset_after`, else of `gru_step`.
        mask: boolean (B, T). A masked step leaves the state and the output as they were (the
            output of a step before the first is 0); its weights are 0.
        memory_mask: boolean (B, S), True = attend. An example without any gets weights and a
            context of exactly 0.
        saves: whether the loop saves gates and queries for its gradient. Without, a gradient that
            is asked for all the same computes them once more.

    Returns:
        `(outputs, alignments, state)`: outputs `[s'; c]`, (B, T, units + m), alignments a,
        (B, T, S), and the state after the last step, (B, units).

    Raises:
        ValueError: a mask is not boolean or does not fit; a `recurrent_bias` without
            `reset_after`; one of `query_kernel` and `score_vector` without the other.

    Example:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import attention_scan
    >>> outputs, alignments, state = attention_scan(
    ...     tf.ones([2, 7, 3]), tf.ones([2, 5, 6]), tf.ones([2, 5, 4]), tf.zeros([2, 8]),
    ...     kernel=tf.ones([3 + 6, 3 * 8]), recurrent_kernel=tf.ones([8, 3 * 8]),
    ...     query_kernel=tf.ones([8, 4]), score_vector=tf.ones([4]))
    >>> outputs.shape, alignments.shape, state.shape
    (TensorShape([2, 7, 14]), TensorShape([2, 7, 5]), TensorShape([2, 8]))

    References:
        Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and
        Translate", appendix A.1.2, https://arxiv.org/abs/1409.0473
        Luong et al. 2015, the product, https://arxiv.org/abs/1508.04025
    """
    if (query_kernel is None) != (score_vector is None):
        raise ValueError(
            "Additive scores need a `query_kernel` and a `score_vector`, products with the state "
            f"neither. Received: query_kernel {_given_or_not(query_kernel)} and score_vector "
            f"{_given_or_not(score_vector)}"
        )
    form = form_of(reset_after, recurrent_bias)
    scoring = ProductScoring if query_kernel is None else AdditiveScoring
    features = inputs.shape[-1]
    if memory_mask is not None:
        scores = (tf.shape(memory)[0], 1, memory.shape[1])
        memory_mask = masks.expand(memory_mask, scores, "memory_mask")[:, 0]  # (B, S)
        memory = masks.clear_hidden(memory, memory_mask)
        keys = masks.clear_hidden(keys, memory_mask)
    if mask is not None:
        mask = masks.of_steps(mask, inputs)

    time_major = tf.transpose(inputs, [1, 0, 2])  # (T, B, d)
    projected = times(time_major, kernel[:features])  # (T, B, 3 * units)
    if bias is not None:
        projected += bias

    direct, candidate_kernel = form.split(recurrent_kernel)
    state_kernel = direct
    if query_kernel is not None:
        state_kernel = tf.concat([direct, query_kernel], axis=-1)  # (units, blocks * units + a)
    state_bias = _state_bias(form, recurrent_kernel, recurrent_bias, query_kernel, query_bias)
    if score_scale is not None:
        score_vector = normalised(score_vector, score_scale)
    given = _Given(
        projected=projected,
        initial_state=initial_state,
        memory=memory,
        keys=scoring.layout(keys),
        score_vector=score_vector,
        state_kernel=state_kernel,
        state_bias=state_bias,
        context_kernel=kernel[features:],
        candidate_kernel=candidate_kernel,
        mask=mask,
        memory_mask=memory_mask,
    )
    # XLA takes 5 % off this and seconds to compile each shape: not worth it.
    saving_nothing = None if saves else _outputs
    run = with_gradient(_forward, _backward, (form, scoring), saving_nothing=saving_nothing)
    states, contexts, alignments, last = run(given)
    if mask is not None:
        started = tf.cumsum(tf.cast(mask, tf.int32), axis=0) > 0
        states = tf.where(started, states, tf.zeros_like(states))
        alignments = tf.where(mask, alignments, tf.zeros_like(alignments))
    outputs = tf.concat([states, contexts], axis=-1)  # (T, B, units + m)
    return tf.transpose(outputs, [1, 0, 2]), tf.transpose(alignments, [1, 0, 2]), last


def _state_bias(form, recurrent_kernel, recurrent_bias, query_kernel, query_bias):
    """The biases of all that is multiplied with the state: recurrent blocks, then the query."""
    if recurrent_bias is None:
        recurrent_bias = tf.zeros([form.blocks * recurrent_kernel.shape[0]], recurrent_kernel.dtype)
    if query_kernel is None:
        return recurrent_bias
    if query_bias is None:
        query_bias = tf.zeros([query_kernel.shape[-1]], query_kernel.dtype)
    return tf.concat([recurrent_bias, query_bias], axis=0)


def _given_or_not(weight) -> str:
    return "missing" if weight is None else "given"


class _Given(NamedTuple):
    """What the loop reads, and is differentiated by but for the masks; sequences time-major."""

    projected: tf.Tensor  # (T, B, 3 * units)
    initial_state: tf.Tensor  # (B, units)
    memory: tf.Tensor  # (B, S, m)
    keys: tf.Tensor  # in the layout of the scoring
    score_vector: tf.Tensor | None  # (a,)
    state_kernel: tf.Tensor  # (units, blocks * units [+ a])
    state_bias: tf.Tensor  # (blocks * units [+ a],)
    context_kernel: tf.Tensor  # (m, 3 * units)
    candidate_kernel: tuple  # one of (units, units), or none
    mask: tf.Tensor | None  # (T, B, 1)
    memory_mask: tf.Tensor | None  # (B, S)


class _Turned(NamedTuple):
    """The kernels transposed, once before the loop backwards."""

    state_kernel: tf.Tensor
    context_kernel: tf.Tensor
    candidate_kernel: tuple

    @classmethod
    def of(cls, given):
        candidate_kernel = tuple(tf.transpose(kernel) for kernel in given.candidate_kernel)
        kernels = tf.transpose(given.state_kernel), tf.transpose(given.context_kernel)
        return cls(*kernels, candidate_kernel)


def _forward(form, scoring, given):
    """States, contexts and alignments of all steps and the last state; gates and queries."""
    (*outputs, gates, queries), last = _loop(form, scoring, given, lambda collected: collected)
    return (*outputs, last), (gates, queries)


def _outputs(form, scoring, given):
    """States, contexts and alignments of all steps and the last state."""
    outputs, last = _loop(form, scoring, given, lambda collected: collected[:3])
    return (*outputs, last)


def _loop(form, scoring, given, kept):
    """What is kept of (states, contexts, alignments, gates, queries), and the last state."""
    features_first = tf.transpose(given.memory, [0, 2, 1])  # (B, m, S)

    def step(x, hidden):
        products = tf.matmul(hidden, given.state_kernel) + given.state_bias
        recurrent = form.blocks * hidden.shape[-1]
        products, query = products[:, :recurrent], products[:, recurrent:]
        scores = scoring.scores(hidden, query, given)
        alignment = masks.masked_softmax(scores, given.memory_mask)
        alignment = tf.cast(alignment, given.memory.dtype)
        # Twice as fast as the product with (B, S, m).
        context = tf.matmul(alignment[:, None], features_first, transpose_b=True)[:, 0]
        x = x + tf.matmul(context, given.context_kernel)
        hidden, gates = form.step(x, products, hidden, *given.candidate_kernel)
        return hidden, context, alignment, gates, query

    def free_step(x, hidden):
        outputs = step(x, hidden)
        return kept(outputs), outputs[0]

    def masked_step(moment, held):
        (x, mask), (hidden, context) = moment, held
        new_hidden, new_context, *others = step(x, hidden)
        held = tf.where(mask, new_hidden, hidden), tf.where(mask, new_context, context)
        return kept((*held, *others)), held

    if given.mask is None:
        outputs, last = scan(free_step, given.projected, given.initial_state, time_major=True)
    else:
        start = given.initial_state, _zeros_like_one_position(given.memory)
        moments = given.projected, given.mask
        outputs, (last, _) = scan(masked_step, moments, start, time_major=True)
    states, contexts, alignments, *saved = outputs
    return (states, contexts, _over_positions(alignments, given), *saved), last


def _backward(form, scoring, given, outputs, saved, output_gradients):
    states, contexts, alignments, _ = outputs
    gates, queries = saved
    *d_outputs, d_last = output_gradients  # of states, contexts and alignments
    hidden = before_each_step(given.initial_state, states, reverse=False)
    slopes = form.slopes(hidden, gates, given.mask)
    moments = (*d_outputs, slopes, hidden, queries, alignments)
    turned = _Turned.of(given)
    sums = scoring.zero_sums(given)

    def step(moment, carried):
        d_state, d_context, d_alignment, *kept = moment
        d_hidden, sums = carried
        collected, d_hidden, sums = _step_gradient(
            form, scoring, given, turned, d_hidden + d_state, d_context, d_alignment, *kept, sums
        )
        return collected, (d_hidden, sums)

    def masked_step(moment, carried):
        (d_state, d_context, d_alignment, *kept), mask = moment
        (d_hidden, d_held_context), sums = carried
        d_context += d_held_context
        masked = mask * d_context, mask * d_alignment  # the slopes hold the state
        collected, d_hidden, sums = _step_gradient(
            form, scoring, given, turned, d_hidden + d_state, *masked, *kept, sums
        )
        return collected, ((d_hidden, d_context - masked[0]), sums)

    if given.mask is None:
        start = d_last, sums
        run = scan(step, moments, start, reverse=True, time_major=True)
        collected, (d_initial, sums) = run
    else:
        start = (d_last, _zeros_like_one_position(given.memory)), sums
        moments = moments, tf.cast(given.mask, d_last.dtype)
        run = scan(masked_step, moments, start, reverse=True, time_major=True)
        collected, ((d_initial, _), sums) = run
    d_products, d_candidate, d_contexts, d_scores = collected
    d_scores = _over_positions(d_scores, given)

    d_x = of_projection(d_products, d_candidate)  # (T, B, 3 * units)
    d_keys, d_vector = scoring.gradients(sums, d_scores, hidden, given)
    return _Given(
        projected=d_x,
        initial_state=d_initial,
        memory=tf.einsum("tbs,tbm->bsm", alignments, d_contexts),
        keys=d_keys,
        score_vector=d_vector,
        state_kernel=sum_of_outer_products(hidden, d_products),
        state_bias=sum_of_rows(d_products),
        context_kernel=sum_of_outer_products(contexts, d_x),
        candidate_kernel=form.candidate_kernel_gradient(hidden, gates, d_candidate),
        mask=None,
        memory_mask=None,
    )


def _step_gradient(
    form,
    scoring,
    given,
    turned,
    d_hidden,
    d_context,
    d_alignment,
    slopes,
    hidden,
    query,
    alignment,
    sums,
):
    """One step backwards.

    Returns:
        Gradients of this step's products, candidate, context and scores; of the state before; the
        sums with this step in them.
    """
    d_products, d_candidate, d_before = form.step_gradient(
        d_hidden, slopes, *turned.candidate_kernel
    )
    d_x = of_projection(d_products, d_candidate)
    d_context += tf.matmul(d_x, turned.context_kernel)
    d_alignment += tf.matmul(d_context[:, None], given.memory, transpose_b=True)[:, 0]  # (B, S)

    precision = wide_dtype(given.keys.dtype)
    d_alignment, precise = tf.cast(d_alignment, precision), tf.cast(alignment, precision)
    mean = tf.reduce_sum(precise * d_alignment, axis=-1, keepdims=True)
    d_scores = precise * (d_alignment - mean)  # (B, S)

    d_query, d_before_by_score, sums = scoring.step_gradient(d_scores, hidden, query, given, sums)
    d_products = tf.concat([d_products, d_query], axis=-1)
    d_before += tf.matmul(d_products, turned.state_kernel)
    if d_before_by_score is not None:
        d_before += d_before_by_score
    collected = d_products, d_candidate, d_context, d_scores
    return collected, d_before, sums


def _over_positions(collected, given):
    """`collected` (T, B, S) with its shape, which a loop without steps cannot tell."""
    return tf.reshape(collected, [*sizes(given.projected)[:2], tf.shape(given.memory)[1]])


def _zeros_like_one_position(memory):
    """(B, m), also of a memory without positions."""
    return tf.zeros([tf.shape(memory)[0], memory.shape[-1]], memory.dtype)
