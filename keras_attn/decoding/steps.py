"""Calling the step function of a model, and reading its logits."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.protocols import StepFunction


class StepOutput(NamedTuple):
    """What one step returned: logits (N, V) float32, a state, attention (N, S) float32 or None."""

    logits: tf.Tensor
    state: object
    attention: tf.Tensor | None


def call_step(step: StepFunction, tokens, state) -> StepOutput:
    """Call `step(tokens (N,), state)` and check what it returns."""
    returned = step(tokens, state)
    if not isinstance(returned, tuple | list) or len(returned) not in (2, 3):
        raise ValueError(
            "A step must return (logits, state) or (logits, state, attention). "
            f"Received: step(tokens, state)={type(returned).__name__}"
            + (f" of {len(returned)}" if isinstance(returned, tuple | list) else "")
        )
    logits, state, attention = (*returned, None)[:3]
    logits = _matrix(logits, tokens.shape[0], "logits", "(N, V), one row a hypothesis")
    if attention is not None:
        shape = "(N, S), one row a hypothesis and one column a source position"
        attention = _matrix(attention, tokens.shape[0], "attention", shape)
    return StepOutput(logits, state, attention)


def peek(step: StepFunction, tokens, state):
    """What the first step returns, and a step that does not compute it again.

    The loop has to know before it is built whether there is attention and how large the
    vocabulary is. Eagerly the first step is computed, and handed out when the loop asks for it;
    in a graph it is traced into a scratch graph that is thrown away: only what is known of its
    shapes may be used.
    """
    if tf.executing_eagerly():
        return compute_ahead(step, tokens, state)
    with tf.__internal__.FuncGraph("first_step").as_default():
        return call_step(step, tokens, state), step


def compute_ahead(step: StepFunction, tokens, state):
    """What the first step returns, and a step that returns it when it is first called."""
    first = call_step(step, tokens, state)
    pending = [first]

    def remembering_step(tokens, state):
        return pending.pop() if pending else step(tokens, state)

    return first, remembering_step


class Normalizer(NamedTuple):
    """The logarithm of the softmax's denominator, in two terms: `shift + log_sum`, (N,) each.

    `log_sum` is NaN where a logit is NaN or +inf. A row of -inf only has log-probability -inf
    throughout.
    """

    shift: tf.Tensor
    log_sum: tf.Tensor

    def log_probability(self, logits):
        """Log-probabilities of some of the logits of each row, (N, K) -> (N, K)."""
        return (logits - self.shift[:, None]) - self.log_sum[:, None]


def normalizer(logits) -> Normalizer:
    """The normalizer of each row of logits (N, V), without writing N x V log-probabilities."""
    largest = tf.reduce_max(logits, axis=-1)  # (N,)
    shift = tf.where(tf.math.is_finite(largest), largest, 0.0)
    log_sum = tf.math.log(tf.reduce_sum(tf.exp(logits - shift[:, None]), axis=-1))
    log_sum = tf.where(tf.math.is_inf(log_sum), tf.where(log_sum < 0, 0.0, float("nan")), log_sum)
    return Normalizer(shift, log_sum)


def without_nan(logits, norm: Normalizer):
    """-inf for NaN: sorting by a comparison with NaN may read beyond its memory.

    The normalizer of the row keeps the NaN, so every log-probability of the row does.
    """
    broken = tf.reduce_any(tf.math.is_nan(norm.log_sum))
    return tf.cond(
        broken,
        lambda: tf.where(tf.math.is_nan(logits), -float("inf"), logits),
        lambda: logits,
    )


def _matrix(value, rows, name, expected):
    value = tf.convert_to_tensor(value)
    wrong_rank = value.shape.rank not in (None, 2)
    wrong_rows = value.shape.rank == 2 and rows is not None and value.shape[0] not in (None, rows)
    if wrong_rank or wrong_rows:
        raise ValueError(
            f"A step must return {name} of shape {expected}; here N is {rows or 'unknown'}. "
            f"Received: {name}.shape={value.shape}"
        )
    if not value.dtype.is_floating:
        raise ValueError(
            f"A step must return {name} of a floating dtype. "
            f"Received: {name}.dtype={value.dtype.name}"
        )
    # What decides is float32, whatever the policy of the model.
    return tf.cast(tf.ensure_shape(value, (rows, None)), tf.float32)
