"""Checks of the arguments that all searches share."""

import math

import numpy as np
import tensorflow as tf


def integer_at_least(value, minimum: int, name: str):
    """`value`, an int or an integer scalar tensor, checked as far as it is known at tracing."""
    static = tf.get_static_value(value)
    if static is None:
        checked = tf.debugging.assert_greater_equal(
            value, tf.cast(minimum, value.dtype), f"{name} must be at least {minimum}."
        )
        with tf.control_dependencies([checked] if checked is not None else []):
            return tf.cast(tf.identity(value), tf.int32)
    if isinstance(static, bool) or int(static) != static or static < minimum:
        raise ValueError(
            f"{name} must be an integer of at least {minimum}. Received: {name}={static}"
        )
    return int(static)


def length_limits(max_length):
    """The most tokens of any example, and those of each: a scalar for all, or (B,).

    Both are ints where they are known at tracing and the same for all.
    """
    rank = tf.convert_to_tensor(max_length).shape.rank
    if rank == 0:
        longest = integer_at_least(max_length, 1, "max_length")
        return longest, longest
    if rank != 1:
        raise ValueError(
            "max_length must be one integer, or one for each example, of shape (B,). "
            f"Received: max_length.shape.rank={rank}"
        )
    limits = tf.cast(tf.convert_to_tensor(max_length), tf.int32)
    checked = tf.debugging.assert_greater_equal(limits, 1, "max_length must be at least 1.")
    with tf.control_dependencies([checked] if checked is not None else []):
        return tf.reduce_max(tf.concat([limits, [1]], axis=0)), tf.identity(limits)


def batch_size_of(value):
    """The batch size: an int where it is known at tracing, else an int32 scalar tensor."""
    value = integer_at_least(value, 0, "batch_size")
    if isinstance(value, int):
        return value
    # The size of a tensor of known shape is known too, but only to shape inference.
    known = tf.zeros([value]).shape[0]
    return value if known is None else known


def tokens_of(value, name: str, vocabulary_size: int | None = None, lowest: int = -(2**31)):
    """Token ids of any shape as int32: integers from `lowest` to the end of the vocabulary."""
    try:
        tokens = tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        tokens = None
    empty = tokens is not None and tokens.shape.num_elements() == 0
    whole = tokens is not None and tokens.dtype.is_integer and not _holds_bool(value)
    if not whole and not empty:
        raise ValueError(
            f"{name} must hold token ids, which are integers. Received: {name}={value!r}"
        )
    known = tf.get_static_value(tokens)
    if known is not None and known.size:
        beyond = 2**31 if vocabulary_size is None else vocabulary_size
        if known.min() < lowest or known.max() >= beyond:
            raise ValueError(
                f"{name} must hold tokens of the vocabulary, whose size is {vocabulary_size}. "
                f"Received: {name}={known.tolist()}"
            )
    return tf.cast(tokens, tf.int32)


def _holds_bool(value) -> bool:
    """Whether Python's or NumPy's True or False is among the values: they pass for 1 and 0."""
    return any(isinstance(each, bool | np.bool_) for each in tf.nest.flatten(value))


def start_tokens(start_id, batch_size):
    """The token fed at the first step, one for all examples or one each: (B,)."""
    tokens = tokens_of(start_id, "start_id")
    if tokens.shape.rank not in (0, 1):
        raise ValueError(
            "start_id must be one token, or one for each example, of shape (B,). "
            f"Received: start_id.shape={tokens.shape}"
        )
    return tf.broadcast_to(tokens, [batch_size])


def static_integer_at_least(value, minimum: int, name: str) -> int:
    """`value`, which decides a shape: it must be known when the search is built."""
    if tf.get_static_value(value) is None:
        raise ValueError(
            f"{name} must be known when the search is built, an int. Received: {name}={value}"
        )
    return integer_at_least(value, minimum, name)


def end_rule(value) -> str:
    """Which hypotheses a beam search may answer with: a name that `beam_search` explains."""
    if not isinstance(value, str) or value not in ("finished", "running"):
        raise ValueError(
            'end_rule must be "finished" or "running". ' + f"Received: end_rule={value!r}"
        )
    return value


def number(value, name: str, minimum=None, above=None, most=None):
    """A finite number, or a scalar tensor, whose bounds are checked as far as it is known."""
    static = tf.get_static_value(value)
    if static is None:
        return tf.cast(value, tf.float32)
    bounds = {"of at least": minimum, "above": above, "of at most": most}
    fits = (
        math.isfinite(static)
        and (minimum is None or static >= minimum)
        and (above is None or static > above)
        and (most is None or static <= most)
    )
    if not fits:
        given = [f" {word} {bound}" for word, bound in bounds.items() if bound is not None]
        wanted = "a finite number" + " and".join(given)
        raise ValueError(f"{name} must be {wanted}. Received: {name}={static}")
    return float(static)
