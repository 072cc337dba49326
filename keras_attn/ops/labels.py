"""Labels (B, T): ids of a vocabulary, the weights of their tokens, and ids that are outside."""

import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import tensorflow as tf
from keras import ops

from keras_attn.ops.compilation import compiled_by_xla
from keras_attn.ops.masks import require_boolean

_RULE = (
    "A label must be an id of the vocabulary, from 0 to its size - 1: mend the data, or mask the "
    "token if it does not count."
)
_LOWEST = tf.int64.min
_collecting: ContextVar[tuple | None] = ContextVar("collecting", default=None)


def require_smoothing(label_smoothing: float) -> None:
    """Raise `ValueError` unless it is a probability mass that leaves the label some."""
    if not isinstance(label_smoothing, numbers.Real) or not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            "Label smoothing is a probability mass in [0, 1). "
            f"Received: label_smoothing={label_smoothing!r}"
        )


def require_z_loss(z_loss: float) -> None:
    """Raise `ValueError` unless it is a factor that a loss can have."""
    if not isinstance(z_loss, numbers.Real) or not 0.0 <= z_loss < math.inf:
        raise ValueError(
            f"The factor of the z-loss is finite and not negative. Received: z_loss={z_loss!r}"
        )


def label_tensor(labels):
    """Labels as an integer tensor (B, T), or `ValueError`."""
    is_list = isinstance(labels, list | tuple)
    labels = tf.convert_to_tensor(labels)
    if is_list and labels.shape.num_elements() == 0:
        labels = tf.cast(labels, tf.int32)  # an empty list says nothing of a dtype
    if not labels.dtype.is_integer:
        raise ValueError(
            "Labels are ids of a vocabulary and must be integers: cast them if they are whole "
            f"numbers. Received: labels.dtype={labels.dtype.name}"
        )
    if labels.shape.rank not in (2, None):
        raise ValueError(
            "Labels must have the shape (B, T), one id for each token; one sequence is written "
            f"labels[None]. Received: labels.shape={tuple(labels.shape)}"
        )
    return tf.ensure_shape(labels, [None, None])


def token_weights(labels, scores, mask=None, sample_weight=None, name: str = "logits"):
    """The weight of every token, 0 where it is masked.

    Args:
        labels: (B, T) integers.
        scores: (B, T, ...), what the model says of every token.
        mask: (B, T) boolean, True at real tokens; or None, all are real.
        sample_weight: (B,) or (B, T) weights, or None.
        name: what the caller calls the scores.

    Returns:
        (B, T), of the dtype of the scores.

    Raises:
        ValueError: if one of them has another shape than its own above: nothing is broadcast.
            Where a shape is not known before a graph runs, it is an assertion of the graph; XLA
            takes none, and there all weights are NaN.
    """
    fits = [_fits(scores, labels, name, axes=2, rank=3)]
    weights = tf.ones_like(labels, scores.dtype)
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, scores.dtype)
        axes = 1 if sample_weight.shape.rank == 1 else 2
        fits.append(_fits(sample_weight, labels, "sample_weight", axes, axes))
        weights *= sample_weight[:, None] if axes == 1 else sample_weight
    if mask is not None:
        mask = require_boolean(mask)
        fits.append(_fits(mask, labels, "mask", axes=2, rank=2))
        weights = tf.where(mask, weights, tf.zeros_like(weights))
    for fit in fits:
        if fit is not True:
            weights = tf.where(fit, weights, tf.constant(math.nan, weights.dtype))
    return weights


def _fits(x, labels, name: str, axes: int, rank: int):
    """True if the first axes of `x` are those of the labels, a boolean scalar if it is not known.

    Raises:
        ValueError: if they are not, or `x` has not that rank.
    """
    forms = {
        "mask": "The mask must have the shape of the labels, (B, T)",
        "sample_weight": "The weights must be those of the examples (B,) or of the tokens (B, T)",
    }
    form = forms.get(name, f"The {name} must have the shape (B, T, ...) with B and T of the labels")
    given, wanted = x.shape, labels.shape
    if given.rank not in (rank, None) or not given[:axes].is_compatible_with(wanted[:axes]):
        raise ValueError(
            f"{form}, for nothing is broadcast; the labels have the shape {tuple(wanted)}. "
            f"Received: {name}.shape={tuple(given)}"
        )
    if given[:axes].is_fully_defined() and wanted[:axes].is_fully_defined():
        return True
    given, wanted = tf.shape(x)[:axes], tf.shape(labels)[:axes]
    fits = tf.reduce_all(tf.equal(given, wanted))
    if compiled_by_xla():
        return fits
    sentence = f"{form}, for nothing is broadcast. Received: {name}.shape[:{axes}] ="
    with tf.control_dependencies(
        [tf.debugging.Assert(fits, [sentence, given, f"labels.shape[:{axes}] =", wanted])]
    ):
        return tf.identity(fits)


def known_labels(labels, size, counts):
    """Labels that can be looked up, and which of them had to be replaced.

    A label outside of the vocabulary raises where it counts, with the id and the size: a
    `ValueError` eagerly, an `InvalidArgumentError` in a graph. XLA can raise nothing: whoever calls
    this makes the loss NaN there. Within `outside_labels()` nothing is raised on any path.

    Args:
        labels: integers of any shape.
        size: V, of the vocabulary.
        counts: boolean of the shape of the labels; the others may have any label.

    Returns:
        `(labels, outside)`: int32 labels in [0, V), with 0 for those that do not count or are
        outside; and boolean, labels that count and are outside.
    """
    labels = tf.cast(labels, tf.int64)  # int32 would make 0 of 2**32
    size = tf.cast(size, tf.int64)
    outside = counts & ((labels < 0) | (labels >= size))
    # The largest of them: also an empty tensor has one.
    label = tf.reduce_max(tf.where(outside, labels, _LOWEST))
    found = tf.reduce_any(outside)
    labels = _told(labels, label, size, found)
    known = tf.where(counts & ~outside, labels, tf.zeros_like(labels))
    return tf.cast(known, tf.int32), outside


def _told(labels, label, size, found):
    """The labels, after somebody was told of the one that is outside, if one was found."""
    collecting = _collecting.get()
    if collecting is not None and collecting[0] is tf.compat.v1.get_default_graph():
        collecting[1].append(tf.where(found, tf.stack([label, size]), 0))
        return labels
    if compiled_by_xla():
        return labels
    if tf.executing_eagerly():
        if found:
            raise ValueError(f"{_RULE} Received: label={int(label)}, vocabulary size={int(size)}")
        return labels
    sentence = [f"{_RULE} Received: label =", label, "vocabulary size =", size]
    with tf.control_dependencies([tf.debugging.Assert(~found, sentence)]):
        return tf.identity(labels)


@contextmanager
def outside_labels() -> Iterator[list]:
    """While this lasts, labels outside of the vocabulary are collected and raise nothing.

    It is for a training step, which has to tell of them alike on every path. Labels that are looked
    up in another graph than the one in which this is entered, as in a `tf.function` that is called
    here, cannot be collected and raise as ever.

    Yields:
        A list that gets `[label, size]`, int64 (2,), for each set of labels, with a size of 0 if
        none is outside; see `first_outside`.
    """
    found: list = []
    token = _collecting.set((tf.compat.v1.get_default_graph(), found))
    try:
        yield found
    finally:
        _collecting.reset(token)


def first_outside(found: Sequence):
    """The first of what `outside_labels` collected that has a label: int64 (2,), 0 if none has."""
    first = tf.zeros([2], tf.int64)
    for pair in found:
        first = tf.where(first[1] > 0, first, pair)
    return first
