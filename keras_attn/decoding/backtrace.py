"""How a hypothesis ends, and the way back from there to its tokens."""

from typing import NamedTuple

import tensorflow as tf


class Ending(NamedTuple):
    """K ways to end for each of B examples, (B, K) each.

    Attributes:
        scores: -inf where there is none.
        log_probabilities: of the whole hypothesis.
        lengths: in tokens, the end token counted.
        written: how many of the tokens were chosen by a beam that ran on: all, where the hypothesis
            was cut, all but the last, where it ends.
        beams: the beam that was extended by the end token, or that was cut.
        tokens: the end token; of no meaning where the hypothesis was cut.
        token_log_probabilities: that of the end token.
    """

    scores: tf.Tensor
    log_probabilities: tf.Tensor
    lengths: tf.Tensor
    written: tf.Tensor
    beams: tf.Tensor
    tokens: tf.Tensor
    token_log_probabilities: tf.Tensor

    @classmethod
    def none(cls, batch_size, count):
        """Room for `count` endings an example."""
        never = tf.fill([batch_size, count], -float("inf"))
        zero = tf.zeros([batch_size, count], tf.int32)
        return cls(never, never, zero, zero, zero, zero, never)

    def join(self, others):
        """These endings, then the others: (B, K) and (B, J) -> (B, K + J)."""
        return Ending(*(tf.concat(pair, axis=1) for pair in zip(self, others, strict=True)))

    def best(self, count):
        """The `count` of highest score, best first; of equal ones the earlier."""
        scores, order = tf.math.top_k(self.scores, count)
        return Ending(scores, *(tf.gather(each, order, batch_dims=1) for each in self[1:]))


class Paths(NamedTuple):
    """What was found on the way back, (B, K, L) each; of no meaning past a hypothesis' length.

    Attributes:
        tokens: those of the hypothesis, the end token too.
        token_log_probabilities: the log-probability of each.
        beams: the beam whose step chose each.
    """

    tokens: tf.Tensor
    token_log_probabilities: tf.Tensor
    beams: tf.Tensor


def trace_back(tokens, token_log_probabilities, parents, ending: Ending, positions) -> Paths:
    """Follow the parents of hypotheses from their last token to their first.

    Args:
        tokens: (L, B, W), the token chosen for each beam at each position.
        token_log_probabilities: (L, B, W), the log-probability of that token.
        parents: (L, B, W), the beam that token extended.
        ending: how the K hypotheses end.
        positions: how many of the L positions were filled.
    """
    length = tf.shape(tokens)[0]

    def earlier(position, beams, *arrays):
        inside = position < ending.written  # (B, K)

        def of(chosen, at_the_end):
            return tf.where(inside, tf.gather(chosen[position], beams, batch_dims=1), at_the_end)

        before = of(parents, beams)
        found = (
            of(tokens, ending.tokens),
            of(token_log_probabilities, ending.token_log_probabilities),
            before,
        )
        arrays = (array.write(position, each) for array, each in zip(arrays, found, strict=True))
        return position - 1, before, *arrays

    def array(dtype):
        return tf.TensorArray(dtype, size=length, element_shape=ending.beams.shape)

    begin = (positions - 1, ending.beams, array(tf.int32), array(tf.float32), array(tf.int32))
    _, _, *arrays = tf.while_loop(lambda position, *_: position >= 0, earlier, begin)
    return Paths(*(tf.transpose(array.stack(), [1, 2, 0]) for array in arrays))
