"""The attention that the hypotheses of a beam search gave to the source, and what it costs."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.decoding.penalties import coverage_penalty


class Coverage(NamedTuple):
    """The coverage penalty of N hypotheses; nothing at all if it weighs 0."""

    beta: tf.Tensor | float
    mask: tf.Tensor | None  # (N, S)

    @property
    def counts(self) -> bool:
        """Whether there is a penalty."""
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
        return tf.reshape(coverage_penalty(sums[0], self.beta, self.mask), shape)


def make_coverage(beta, source_mask, attention, width) -> Coverage:
    """Check the arguments of a search that concern the coverage penalty."""
    cover = Coverage(beta, source_mask)
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
    return Coverage(beta, tf.repeat(mask, width, axis=0))


def coverage_after(before: list, sums: list, settled, parent_rows) -> list:
    """The attention summed over the steps, by the beams after a step: lists of (N, S).

    That of a beam whose example is settled (N,) stays as it was.
    """
    return [
        tf.where(settled[:, None], old, tf.gather(total, parent_rows))
        for old, total in zip(before, sums, strict=True)
    ]
