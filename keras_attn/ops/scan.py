"""One loop over time for everything that is recurrent."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_attn.ops.masks import require_step_mask
from keras_attn.ops.shapes import sizes

Nest = Any  # a tensor, or lists, tuples and dicts of tensors
Step = Callable[[Nest, Nest], tuple[Nest, Nest]]


def scan(
    step: Step,
    inputs: Nest,
    initial_states: Nest,
    mask=None,
    reverse: bool = False,
    *,
    initial_outputs: Nest = None,
    time_major: bool = False,
    unroll: bool = False,
) -> tuple[Nest, Nest]:
    """Carry states through time: `outputs_t, states_t = step(inputs_t, states_{t-1})`.

    Where `mask[b, t]` is False sequence b stands still: its states are those of the step before,
    and so are its outputs (`initial_outputs` as long as no step was taken).

    What `step` reads beside its arguments (weights, a memory to attend over) reaches it by
    closure, and gradients reach that.

    Args:
        step: takes one moment of `inputs`, a nest of (B, ...), and the nest of states; returns
            a nest of outputs (B, ...), which may be empty, and the new states in the structure,
            shapes and dtypes of the old.
        inputs: nest of (B, T, ...), one tensor at least. T and B may be unknown, or 0.
        initial_states: nest of (B, ...).
        mask: (B, T) boolean, or None.
        reverse: go from the last moment to the first. Each output stays beside its input.
        initial_outputs: nest of (B, ...) like the outputs, zeros if None. Read with a mask only,
            and needed there if an output has an unknown size beside B.
        time_major: inputs and outputs are (T, B, ...) and the mask is (T, B).
        unroll: write the steps one after another into the graph; T must be known.

    Returns:
        `(outputs, final_states)`: a nest of (B, T, ...) and a nest like `initial_states`.

    Raises:
        ValueError: no inputs; a mask that is not boolean or not (B, T); `unroll` with unknown T;
            a step that returns other states than it was given.

    Example:

    >>> import tensorflow as tf
    >>> from keras_attn.ops import scan
    >>> running_sum = lambda x, total: (total + x, total + x)
    >>> sums, total = scan(running_sum, tf.constant([[1.0, 2.0, 3.0]]), tf.zeros([1]))
    >>> sums.numpy().tolist(), total.numpy().tolist()
    ([[1.0, 3.0, 6.0]], [6.0])
    """
    inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
    states = tf.nest.map_structure(tf.convert_to_tensor, initial_states)
    if not tf.nest.flatten(inputs):
        raise ValueError(f"A scan needs at least one input tensor. Received: inputs={inputs}")
    if not time_major:
        inputs = tf.nest.map_structure(_swap_batch_and_time, inputs)  # (T, B, ...)
    if mask is not None:
        length, batch = sizes(tf.nest.flatten(inputs)[0])[:2]
        mask = tf.transpose(mask) if time_major else mask
        mask = tf.transpose(require_step_mask(mask, batch, length))  # (T, B)

    step = _returning_same_states(step)
    if mask is None:
        outputs, states = _run(step, inputs, states, reverse, unroll)
    else:
        if initial_outputs is None:
            initial_outputs = _zero_outputs(step, inputs, states)
        outputs, (states, _) = _run(
            _standing_still(step), (inputs, mask), (states, initial_outputs), reverse, unroll
        )
    if not time_major:
        outputs = tf.nest.map_structure(_swap_batch_and_time, outputs)  # (B, T, ...)
    return outputs, states


def _run(step: Step, inputs, states, reverse: bool, unroll: bool):
    """The scan without a mask over time-major inputs."""
    if unroll and tf.nest.flatten(inputs)[0].shape[0] is None:
        shapes = tf.nest.map_structure(lambda x: x.shape, inputs)
        raise ValueError(
            "A loop over an unknown number of steps cannot be unrolled: give the inputs a static "
            f"length or pass unroll=False. Received: unroll=True and inputs of shape {shapes}"
        )
    known_empty = tf.nest.flatten(inputs)[0].shape[0] == 0
    loop = _unrolled_loop if unroll or known_empty or tf.executing_eagerly() else _graph_loop
    return loop(step, inputs, states, reverse)


def _unrolled_loop(step: Step, inputs, states, reverse: bool):
    moments = [tf.unstack(x) for x in tf.nest.flatten(inputs)]
    moments = [tf.nest.pack_sequence_as(inputs, flat) for flat in zip(*moments, strict=True)]
    if not moments:
        spec = _output_spec(step, inputs, states)
        return tf.nest.map_structure(lambda s: _zeros(s, inputs, leading=[0]), spec), states
    collected = []
    for moment in reversed(moments) if reverse else moments:
        outputs, states = step(moment, states)
        collected.append(outputs)
    if reverse:
        collected.reverse()
    return tf.nest.map_structure(lambda *steps: tf.stack(steps), *collected), states


def _graph_loop(step: Step, inputs, states, reverse: bool):
    flat_inputs = tf.nest.flatten(inputs)
    length = flat_inputs[0].shape[0]
    if length is None:
        length = tf.shape(flat_inputs[0])[0]
    sources = [
        tf.TensorArray(x.dtype, length, element_shape=x.shape[1:]).unstack(x) for x in flat_inputs
    ]
    spec = _output_spec(step, inputs, states)
    collected = [
        tf.TensorArray(s.dtype, length, element_shape=s.shape) for s in tf.nest.flatten(spec)
    ]

    def body(count, states, collected):
        time = length - 1 - count if reverse else count
        moment = tf.nest.pack_sequence_as(inputs, [source.read(time) for source in sources])
        outputs, states = step(moment, states)
        flat_outputs = tf.nest.flatten(outputs)
        written = [c.write(time, o) for c, o in zip(collected, flat_outputs, strict=True)]
        return count + 1, states, written

    # XLA can differentiate the loop only if it knows the most steps it may take.
    _, states, collected = tf.while_loop(
        lambda count, *_: count < length,
        body,
        (0, states, collected),
        maximum_iterations=length,
        parallel_iterations=32,
    )
    # A size that only the elements tell (-1) is 0 where there are none.
    unknown = tf.where(tf.equal(length, 0), 0, -1)
    outputs = [
        _stacked(array, s, _shape(s, inputs, unknown))
        for array, s in zip(collected, tf.nest.flatten(spec), strict=True)
    ]
    for output in outputs:
        output.set_shape([flat_inputs[0].shape[0], *output.shape[1:]])
    return tf.nest.pack_sequence_as(spec, outputs), states


def _stacked(array: tf.TensorArray, spec, shape):
    """All elements of `array`: (T, B, ...), also where T is found to be 0 when the graph runs.

    `array.stack()` refuses that with an unknown B, for it passes on the static shape alone.
    """
    stacked = tf.raw_ops.TensorListStack(
        input_handle=array.flow, element_shape=tf.stack(shape), element_dtype=spec.dtype
    )
    stacked.set_shape([None, *spec.shape])
    return stacked


def _standing_still(step: Step) -> Step:
    """`step` with a mask beside its inputs and the outputs of the step before as a state."""

    def masked_step(inputs_and_mask, states_and_outputs):
        inputs, mask = inputs_and_mask
        states, outputs = states_and_outputs
        new_outputs, new_states = step(inputs, states)
        outputs = tf.nest.map_structure(
            lambda new, old: _choose(mask, new, old), new_outputs, outputs
        )
        states = tf.nest.map_structure(lambda new, old: _choose(mask, new, old), new_states, states)
        return outputs, (states, outputs)

    return masked_step


def _choose(mask, new, old):
    """`new` where the mask (B,) is True, else `old`: (B, ...)."""
    return tf.where(tf.reshape(mask, [-1] + [1] * (new.shape.rank - 1)), new, old)


def _returning_same_states(step: Step) -> Step:
    """`step`, with the new states packed and shaped as the old, or an error if they cannot be."""

    def checked_step(inputs, states):
        outputs, new_states = step(inputs, states)
        old, new = tf.nest.flatten(states), tf.nest.flatten(new_states)
        same = len(old) == len(new) and all(
            o.dtype == n.dtype and o.shape.is_compatible_with(n.shape)
            for o, n in zip(old, new, strict=True)
        )
        if not same:
            given, returned = ([f"{s.dtype.name} {s.shape}" for s in nest] for nest in (old, new))
            raise ValueError(
                "A step must return states of the number, shapes and dtypes that it was given, "
                f"which were {given}. Received: states={returned}"
            )
        for o, n in zip(old, new, strict=True):
            n.set_shape(o.shape)
        return outputs, tf.nest.pack_sequence_as(states, new)

    return checked_step


def _output_spec(step: Step, inputs, states):
    """The nest of `tf.TensorSpec` of the outputs of one step, which is traced and never run."""
    moment = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), inputs)
    states = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), states)
    trace = tf.function(lambda *arguments: step(*arguments)[0], autograph=False)
    return trace.get_concrete_function(moment, states).structured_outputs


def _zero_outputs(step: Step, inputs, states):
    spec = _output_spec(step, inputs, states)
    return tf.nest.map_structure(lambda s: _zeros(s, inputs, leading=[]), spec)


def _zeros(spec, inputs, leading: list):
    return tf.zeros([*leading, *_shape(spec, inputs, unknown=0)], spec.dtype)


def _shape(spec, inputs, unknown):
    """The shape of one output: an unknown B is that of the inputs, other sizes are `unknown`."""
    batch = spec.shape[0]
    if batch is None:
        batch = tf.shape(tf.nest.flatten(inputs)[0])[1]
    return [batch, *(unknown if size is None else size for size in spec.shape[1:])]


def _swap_batch_and_time(x):
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
