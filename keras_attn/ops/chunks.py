"""A scan whose step takes several moments at once."""

import tensorflow as tf

from keras_attn.ops.scan import scan
from keras_attn.ops.shapes import sizes

CHUNK = 10
"""Moments a chunk. Projecting a whole sequence before the loop costs up to a third more than
projecting ten moments at a time, whose results are still in the processor's cache when the steps
read them; longer chunks gain nothing and grow the graph."""


def scan_chunks(step, inputs, states, reverse: bool = False):
    """`ops.scan` over chunks of moments.

    A length that is unknown while the graph is traced is taken moment by moment: XLA refuses both
    a slice of unknown size and a loop that turns out to have no steps, which the rest of such a
    length would need.

    Args:
        step: takes a nest of (K, B, ...), where K >= 1 is known, and the states; returns outputs
            (K, B, ...), each beside its input, and the states. With `reverse` it goes from its
            last moment to its first.
        inputs: nest of (T, B, ...), with None for what is left out.
        states: nest of (B, ...).
        reverse: go from the last chunk to the first.

    Returns:
        `(outputs, states)`: a nest of (T, B, ...) and the states after the last chunk.
    """
    flat = tf.nest.flatten(inputs)

    def step_of_present(tensors, states):
        present = iter(tensors)
        filled = [None if x is None else next(present) for x in flat]
        return step(tf.nest.pack_sequence_as(inputs, filled), states)

    tensors = [x for x in flat if x is not None]
    length = tensors[0].shape[0]
    if not length:  # unknown, or none
        return _scan_pieces(step_of_present, tensors, states, 1, reverse)
    whole = length - length % CHUNK
    pieces, rest = [x[:whole] for x in tensors], [x[whole:] for x in tensors]
    runs = []
    if whole:
        runs.append(lambda states: _scan_pieces(step_of_present, pieces, states, CHUNK, reverse))
    if length % CHUNK:
        runs.append(lambda states: step_of_present(rest, states))
    collected = []
    for run in reversed(runs) if reverse else runs:
        outputs, states = run(states)
        collected.append(outputs)
    if reverse:
        collected.reverse()
    if len(collected) == 1:
        return collected[0], states
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *collected), states


def _scan_pieces(step, tensors, states, size: int, reverse: bool):
    """The scan over pieces of `size` moments; the length is a multiple of it."""
    length, batch = sizes(tensors[0])[:2]
    pieces = [tf.reshape(x, [length // size, size, *sizes(x)[1:]]) for x in tensors]
    outputs, states = scan(step, pieces, states, reverse=reverse, time_major=True)
    outputs = tf.nest.map_structure(lambda x: tf.reshape(x, [length, batch, *x.shape[3:]]), outputs)
    return outputs, states


def before_each_step(initial, states, reverse: bool):
    """The state before each step, of the state after each and the initial one: (T, B, ...)."""
    if reverse:
        return tf.concat([states, initial[None]], axis=0)[1:]
    return tf.concat([initial[None], states], axis=0)[:-1]


def steps_of(chunk, reverse: bool):
    """The indices of the moments of a chunk (K, ...) in the order in which they are taken."""
    steps = range(chunk.shape[0])
    return reversed(steps) if reverse else steps


def stacked(collected: list, reverse: bool) -> tuple:
    """Tuples of (B, ...) in the order of `steps_of`, as a tuple of (K, B, ...) in that of time."""
    if reverse:
        collected = collected[::-1]
    return tuple(tf.stack(parts) for parts in zip(*collected, strict=True))
