"""The tokens that end a hypothesis: one, several or none."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attn.decoding import arguments


class Ends(NamedTuple):
    """The end tokens of a search.

    Attributes:
        tokens: (E,) int32, in rising order; E, which may be 0, is known when the search is built.
        filling: the token of unused slots and of the positions past a hypothesis' end: the end
            token that was named first, and 0 where there is none.
    """

    tokens: tf.Tensor
    filling: tf.Tensor | int

    @property
    def count(self) -> int:
        """E."""
        return self.tokens.shape[0]

    def hold(self, tokens):
        """Which of the tokens, of any shape, are end tokens."""
        return tf.reduce_any(tokens[..., None] == self.tokens, axis=-1)


def make_ends(end_id, vocabulary_size: int | None) -> Ends:
    """Check the argument `end_id` of a search: a token, several tokens (E,), or None."""
    if end_id is None:
        return Ends(tf.zeros([0], tf.int32), filling=0)
    tokens = arguments.tokens_of(end_id, "end_id", vocabulary_size, lowest=0)
    if tokens.shape.rank not in (0, 1) or tokens.shape.num_elements() is None:
        raise ValueError(
            "end_id must be one token, or several whose number is known when the search is built, "
            f"of shape (E,), or None. Received: end_id.shape={tokens.shape}"
        )
    if tokens.shape.num_elements() == 0:
        raise ValueError(
            "end_id must hold at least one token; with None no token ends a hypothesis. "
            f"Received: end_id={end_id!r}"
        )
    known = tf.get_static_value(tokens)
    tokens = tf.reshape(tokens, [-1])
    if known is None:
        tokens = _of_vocabulary(tokens, vocabulary_size)
        return Ends(_distinct(tf.sort(tokens)), tokens[0])
    known = known.ravel()
    if len(np.unique(known)) < len(known):
        raise ValueError(f"end_id must name each token once. Received: end_id={known.tolist()}")
    return Ends(tf.constant(np.unique(known), tf.int32), filling=int(known[0]))


def _of_vocabulary(tokens, size: int | None):
    """Tokens that are known at run time only: one outside of the vocabulary would never be met."""
    inside = tokens >= 0 if size is None else (tokens >= 0) & (tokens < size)
    checked = tf.debugging.Assert(
        tf.reduce_all(inside),
        [
            f"end_id must hold tokens of the vocabulary, whose size is {size}. Received: end_id=",
            tokens,
        ],
    )
    with tf.control_dependencies([checked] if checked is not None else []):
        return tf.identity(tokens)


def _distinct(tokens):
    """Sorted tokens that are known at run time only: twice the same would be one answer twice."""
    checked = tf.debugging.assert_none_equal(
        tokens[1:], tokens[:-1], message="end_id must name each token once."
    )
    with tf.control_dependencies([checked] if checked is not None else []):
        return tf.identity(tokens)
