"""Which tokens a hypothesis may be extended by."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding import arguments
from keras_attn.decoding.ends import Ends


class Constraints(NamedTuple):
    """Constraints on N hypotheses. The prefix comes first: a forced token is not asked the others.

    A constraint takes tokens away and does not renormalise: the log-probability of a token stays
    what the model says.
    """

    ends: Ends
    min_length: tf.Tensor | int
    forced: tf.Tensor | None  # (N, P + 1), below 0 where the hypothesis is free
    forbidden: tf.Tensor | None  # (F,)
    ngram: int  # 0: may repeat

    def begin_history(self, max_length, rows) -> list:
        """What `apply` has to know of the tokens chosen: a list of (N, L), or of nothing."""
        return [tf.zeros([rows, max_length], tf.int32)] if self.ngram else []

    def extend_history(self, history: list, position, tokens) -> list:
        """Note the tokens (N,) chosen at `position`."""
        return [
            tf.where(tf.range(tf.shape(chosen)[1]) == position, tokens[:, None], chosen)
            for chosen in history
        ]

    def apply(self, logits, position, history: list):
        """Logits (N, V) with -inf for the tokens that must not be chosen at `position`."""
        allowed = logits
        vocabulary = tf.range(tf.shape(logits)[1])
        if self.forbidden is not None:
            banned = tf.reduce_any(vocabulary[:, None] == self.forbidden, axis=1)  # (V,)
            allowed = tf.where(banned, -float("inf"), allowed)
        if self.ngram:
            allowed = _ban_repeats(allowed, history[0], position, self.ngram)
        if tf.get_static_value(self.min_length) is None or self.min_length > 1:
            too_short = position + 1 < self.min_length
            allowed = tf.where(too_short & self.ends.hold(vocabulary), -float("inf"), allowed)
        if self.forced is not None:
            column = tf.minimum(position, tf.shape(self.forced)[1] - 1)
            forced = tf.gather(self.forced, column, axis=1)[:, None]  # (N, 1)
            only = tf.where(vocabulary == forced, logits, -float("inf"))
            allowed = tf.where(forced < 0, allowed, only)
        return allowed


def make_constraints(
    ends: Ends,
    min_length,
    prefix,
    forbidden_tokens,
    no_repeat_ngram_size,
    *,
    max_length,
    batch_size,
    beam_width,
    vocabulary_size,
) -> Constraints:
    """Check the arguments of a search that constrain its tokens."""
    min_length = arguments.integer_at_least(min_length, 0, "min_length")
    if isinstance(min_length, int) and isinstance(max_length, int) and min_length > max_length:
        raise ValueError(
            f"min_length must not exceed max_length={max_length}. Received: min_length={min_length}"
        )
    ngram = tf.get_static_value(no_repeat_ngram_size)
    if ngram is None:
        raise ValueError(
            "no_repeat_ngram_size must be known when the search is built. "
            f"Received: no_repeat_ngram_size={no_repeat_ngram_size}"
        )
    return Constraints(
        ends=ends,
        min_length=min_length,
        forced=_forced(prefix, batch_size, beam_width, vocabulary_size),
        forbidden=_forbidden(forbidden_tokens, vocabulary_size),
        ngram=arguments.integer_at_least(ngram, 0, "no_repeat_ngram_size"),
    )


def _forced(prefix, batch_size, beam_width, vocabulary_size):
    if prefix is None:
        return None
    prefix = arguments.tokens_of(prefix, "prefix", vocabulary_size)
    rows = tf.get_static_value(batch_size)
    if prefix.shape.rank not in (1, 2) or (
        prefix.shape.rank == 2 and rows is not None and prefix.shape[0] not in (None, rows)
    ):
        raise ValueError(
            "prefix must be the tokens to start with, of shape (P,) or (batch_size, P). "
            f"Received: prefix.shape={prefix.shape}"
        )
    prefix = tf.broadcast_to(prefix, [batch_size, tf.shape(prefix)[-1]])
    free = tf.fill([batch_size, 1], -1)
    return tf.repeat(tf.concat([prefix, free], axis=1), beam_width, axis=0)  # (N, P + 1)


def _forbidden(forbidden_tokens, vocabulary_size):
    if forbidden_tokens is None:
        return None
    forbidden = arguments.tokens_of(forbidden_tokens, "forbidden_tokens", vocabulary_size, lowest=0)
    if forbidden.shape.rank != 1:
        raise ValueError(
            "forbidden_tokens must be a list of token ids, of shape (F,). "
            f"Received: forbidden_tokens.shape={forbidden.shape}"
        )
    return forbidden


def _ban_repeats(logits, history, position, ngram):
    """-inf for each token that would complete an n-gram the history (N, L) has already."""
    starts = tf.range(tf.maximum(tf.shape(history)[1] - ngram + 1, 0))  # (M,)
    repeated = starts + ngram - 1 < position  # (M,): the n-gram lies in what is written
    for offset in range(ngram - 1):
        earlier = tf.gather(history, starts + offset, axis=1)  # (N, M)
        latest = tf.maximum(position - ngram + 1 + offset, 0)
        repeated &= earlier == tf.gather(history, latest, axis=1)[:, None]
    completions = tf.gather(history, starts + ngram - 1, axis=1)  # (N, M)
    repeated = tf.broadcast_to(repeated, tf.shape(completions))
    rows = tf.broadcast_to(tf.range(tf.shape(logits)[0])[:, None], tf.shape(completions))
    return tf.tensor_scatter_nd_add(
        logits,
        tf.reshape(tf.stack([rows, completions], axis=-1), [-1, 2]),
        tf.reshape(tf.where(repeated, -float("inf"), 0.0), [-1]),
    )
