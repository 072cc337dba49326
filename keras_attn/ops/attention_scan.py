"""A GRU or LSTM that attends over a memory at every step, with a gradient written by hand."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.ops import masks
from keras_attn.ops.additive_attention import normalised
from keras_attn.ops.attending_cells import AttendingGRU, AttendingLSTM
from keras_attn.ops.attention_loop import Given, run_attending
from keras_attn.ops.attention_scoring import AdditiveScoring, ProductScoring
from keras_attn.ops.gru_gradient import form_of
from keras_attn.ops.lstm_gradient import LSTMWeights, gates_first
from keras_attn.ops.products import times
from keras_attn.ops.recurrent import LSTMForm


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
    form = form_of(reset_after, recurrent_bias)
    direct_kernel, candidate_kernel = form.split(recurrent_kernel)
    outputs, alignments, (state,) = _attending(
        AttendingGRU(form),
        inputs,
        memory,
        keys,
        (initial_state,),
        kernels=_Kernels(kernel, bias, direct_kernel, recurrent_bias, candidate_kernel),
        scores=_Scores(query_kernel, query_bias, score_vector, score_scale),
        mask=mask,
        memory_mask=memory_mask,
        saves=saves,
    )
    return outputs, alignments, state


def lstm_attention_scan(
    inputs,
    memory,
    keys,
    initial_states,
    *,
    kernel,
    recurrent_kernel,
    query_kernel=None,
    score_vector=None,
    bias=None,
    peephole_kernel=None,
    gate_recurrent_kernel=None,
    query_bias=None,
    score_scale=None,
    form: LSTMForm = LSTMForm(),  # noqa: B008, it is immutable
    mask=None,
    memory_mask=None,
    saves: bool = True,
):
    """Run a long short-term memory that attends to a memory over a sequence.

    It is `attention_scan` with an LSTM in the place of the GRU; its h is the query. With the memory
    m, its keys k and the states h and c of the step before, at every step

        e_j = v . tanh(h W_q + b_q + k_j),  a = softmax(e),  r = sum_j a_j m_j,
        h', c' = LSTM([x; r], h, c)

    or, without `query_kernel` and `score_vector`, with the scores of Luong et al., `e_j = h . k_j`.
    The LSTM is that of `lstm_step` in any of its forms.

    Args:
        inputs: x, (B, T, d).
        memory: m, (B, S, features).
        keys: k, (B, S, a), the memory projected; a = units for the product with h.
        initial_states: list of h and c, (B, units) each; with FGR also [i, f, o], (B, 3 * units).
        kernel: of [x; r], (d + features, blocks * units), blocks i, f, c, o without those that the
            form lacks.
        recurrent_kernel: of h, (units, blocks * units).
        query_kernel: W_q, (units, a), or None.
        score_vector: v, (a,), or None with `query_kernel`.
        bias: (blocks * units,) or None.
        peephole_kernel: if the form has peepholes, (gates, units) or (units, gates * units).
        gate_recurrent_kernel: for FGR, (3 * units, 3 * units).
        query_bias: b_q, (a,) or None.
        score_scale: g, a scalar, or None; with it `g v / |v|` is in the place of v.
        form: which LSTM it is.
        mask: boolean (B, T). A masked step leaves the states and the output as they were (the
            output of a step before the first is 0); its weights are 0.
        memory_mask: boolean (B, S), True = attend. An example without any gets weights and a
            context of exactly 0.
        saves: whether the loop saves gates, cells and queries for its gradient. Without, a gradient
            that is asked for all the same computes them once more.

    Returns:
        `(outputs, alignments, states)`: outputs `[h'; r]`, (B, T, units + features), alignments a,
        (B, T, S), and the list of the states after the last step.

    Raises:
        ValueError: a mask is not boolean or does not fit; weights that the form has no place for,
            or the lack of one that it needs; one of `query_kernel` and `score_vector` without the
            other.

    Example:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import lstm_attention_scan
    >>> outputs, alignments, (h, c) = lstm_attention_scan(
    ...     tf.ones([2, 7, 3]), tf.ones([2, 5, 6]), tf.ones([2, 5, 8]), [tf.zeros([2, 8])] * 2,
    ...     kernel=tf.ones([3 + 6, 4 * 8]), recurrent_kernel=tf.ones([8, 4 * 8]))
    >>> tuple(outputs.shape), tuple(alignments.shape), tuple(c.shape)
    ((2, 7, 14), (2, 7, 5), (2, 8))

    References:
        Luong et al. 2015, an LSTM that attends, https://arxiv.org/abs/1508.04025
        Greff et al. 2015, the variants, https://arxiv.org/abs/1503.04069
    """
    return _attending(
        AttendingLSTM(form),
        inputs,
        memory,
        keys,
        tuple(initial_states),
        kernels=_Kernels(
            kernel=gates_first(kernel, form),
            bias=None if bias is None else gates_first(bias, form),
            direct_kernel=gates_first(recurrent_kernel, form),
            direct_bias=None,
            others=LSTMWeights.of(form, peephole_kernel, gate_recurrent_kernel),
        ),
        scores=_Scores(query_kernel, query_bias, score_vector, score_scale),
        mask=mask,
        memory_mask=memory_mask,
        saves=saves,
    )


class _Kernels(NamedTuple):
    """The weights of a cell as `ops.attending_cells` take them."""

    kernel: tf.Tensor  # of [x; context], (d + m, blocks * units)
    bias: tf.Tensor | None  # (blocks * units,)
    direct_kernel: tf.Tensor  # of the state, (units, width)
    direct_bias: tf.Tensor | None  # (width,)
    others: tuple


class _Scores(NamedTuple):
    """The weights of additive scores; all None for the product with the state."""

    query_kernel: tf.Tensor | None
    query_bias: tf.Tensor | None
    vector: tf.Tensor | None
    scale: tf.Tensor | None


def _attending(
    cell, inputs, memory, keys, initial_states, *, kernels, scores, mask, memory_mask, saves
):
    """Outputs, alignments and last states of any cell, batches first."""
    _require_whole(scores)
    scoring = ProductScoring if scores.query_kernel is None else AdditiveScoring
    features = inputs.shape[-1]
    if memory_mask is not None:
        shape = (tf.shape(memory)[0], 1, memory.shape[1])
        memory_mask = masks.expand(memory_mask, shape, "memory_mask")[:, 0]  # (B, S)
        memory = masks.clear_hidden(memory, memory_mask)
        keys = masks.clear_hidden(keys, memory_mask)
    if mask is not None:
        mask = masks.of_steps(mask, inputs)

    time_major = tf.transpose(inputs, [1, 0, 2])  # (T, B, d)
    input_kernel, context_kernel = tf.split(kernels.kernel, [features, memory.shape[-1]])
    projected = times(time_major, input_kernel)  # (T, B, blocks * units)
    if kernels.bias is not None:
        projected += kernels.bias
    vector = scores.vector
    if scores.scale is not None:
        vector = normalised(vector, scores.scale)
    given = Given(
        projected=projected,
        initial_states=initial_states,
        memory=memory,
        keys=scoring.layout(keys),
        score_vector=vector,
        query_kernel=scores.query_kernel,
        query_bias=scores.query_bias,
        direct_kernel=kernels.direct_kernel,
        direct_bias=kernels.direct_bias,
        context_kernel=context_kernel,
        weights=kernels.others,
        mask=mask,
        memory_mask=memory_mask,
    )
    hidden, contexts, alignments, last = run_attending(cell, scoring, given, saves)
    if mask is not None:
        started = tf.cumsum(tf.cast(mask, tf.int32), axis=0) > 0
        hidden = tf.where(started, hidden, tf.zeros_like(hidden))
        alignments = tf.where(mask, alignments, tf.zeros_like(alignments))
    outputs = tf.concat([hidden, contexts], axis=-1)  # (T, B, units + m)
    return tf.transpose(outputs, [1, 0, 2]), tf.transpose(alignments, [1, 0, 2]), last


def _require_whole(scores):
    if (scores.query_kernel is None) != (scores.vector is None):
        raise ValueError(
            "Additive scores need a `query_kernel` and a `score_vector`, products with the state "
            f"neither. Received: query_kernel {_given_or_not(scores.query_kernel)} and "
            f"score_vector {_given_or_not(scores.vector)}"
        )


def _given_or_not(weight) -> str:
    return "missing" if weight is None else "given"
