"""How a hypothesis ends, and the way back from there to its tokens."""

from typing import NamedTuple

import tensorflow as tf


class Ending(NamedTuple):
    """K ways to end for each of B examples, (B, K) each.

    Attributes:
        scores: -inf where there is none.
        log_probabilities: of the whole hypothesis.
        lengths: in tokens, the end token counted.
        beams: the beam that was extended by the end token, or that was cut.
    """

    scores: tf.Tensor
    log_probabilities: tf.Tensor
    lengths: tf.Tensor
    beams: tf.Tensor

    @classmethod
    def none(cls, batch_size, count):
        """Room for `count` endings an example."""
        never = tf.fill([batch_size, count], -float("inf"))
        zero = tf.zeros([batch_size, count], tf.int32)
        return cls(never, never, zero, zero)

    def join(self, others):
        """These endings, then the others: (B, K) and (B, J) -> (B, K + J)."""
        return Ending(*(tf.concat(pair, axis=1) for pair in zip(self, others, strict=True)))

    def best(self, count):
        """The `count` of highest score, best first; of equal ones the earlier."""
        scores, order = tf.math.top_k(self.scores, count)
        return Ending(scores, *(tf.gather(each, order, batch_dims=1) for each in self[1:]))

    def where(self, condition, other):
        """These endings for the examples whose condition (B,) is True, the others for the rest."""
        pairs = zip(self, other, strict=True)
        return Ending(*(tf.where(condition[:, None], mine, its) for mine, its in pairs))


def trace_back(tokens, parents, written, beams, positions, end_id):
    """Follow the parents of hypotheses from their last token to their first.

    Args:
        tokens: (L, B, W), the token chosen for each beam at each position.
        parents: (L, B, W), the beam that token extended.
        written: (B, K), how many tokens of each hypothesis stand in `tokens`.
        beams: (B, K), the beam in which the last of them stands.
        positions: how many of the L positions were filled.
        end_id: the token of the positions past `written`.

    Returns:
        Tokens (B, K, L), and the beams (B, K, L) whose step chose them, that of the end token too.
    """
    length = tf.shape(tokens)[0]

    def earlier(position, beams, path, origin):
        inside = position < written  # (B, K)
        token = tf.where(inside, tf.gather(tokens[position], beams, batch_dims=1), end_id)
        beams = tf.where(inside, tf.gather(parents[position], beams, batch_dims=1), beams)
        return position - 1, beams, path.write(position, token), origin.write(position, beams)

    def array():
        return tf.TensorArray(tf.int32, size=length, element_shape=beams.shape)

    begin = (positions - 1, beams, array(), array())
    _, _, path, origin = tf.while_loop(lambda position, *_: position >= 0, earlier, begin)
    return tf.transpose(path.stack(), [1, 2, 0]), tf.transpose(origin.stack(), [1, 2, 0])
