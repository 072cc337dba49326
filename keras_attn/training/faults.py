"""What keeps a step from being applied, found inside of the step and said outside of it."""

import re

import keras
import tensorflow as tf

from keras_attn.protocols import LossScaler

# GRADIENT + i is the gradient of variable i, counted from 0.
NONE, LABEL, LOSS, COUNT, STATE, ENDED, GRADIENT = range(7)

# A loss that is not finite with a scale below this has not overflowed because of its scale.
_SMALLEST_SCALE = 2.0**-14


def kind_of_fault(total, count, norm, states_are_finite, gradients: list) -> tf.Tensor:
    """What is not finite, a scalar integer: `NONE`, `LOSS`, `COUNT`, `STATE` or a gradient.

    In a good step this looks at four numbers. `GRADIENT` plus the number of gradients means that
    all of them are finite but their norm is not.

    Args:
        total: the sum of the objective over all replicas.
        count: its count; a negative one is a fault.
        norm: of the gradients.
        states_are_finite: of the layers, on all replicas.
        gradients: the sums over all replicas.
    """
    loss_is_finite = tf.math.is_finite(total) & tf.math.is_finite(count)

    def of_gradient():
        finite = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
        return GRADIENT + tf.argmin(tf.stack([*(tf.cast(x, tf.int32) for x in finite), 0]))

    def chosen(kind):
        return lambda: tf.constant(kind, tf.int64)

    return tf.case(
        [
            (~loss_is_finite, chosen(LOSS)),
            (count < 0, chosen(COUNT)),
            (~tf.math.is_finite(norm), of_gradient),
            (~states_are_finite, chosen(STATE)),
        ],
        default=chosen(NONE),
    )


def is_left_to(optimizer: keras.optimizers.Optimizer) -> tf.Tensor:
    """Whether what is not finite may be an overflow of the scaled loss, which the optimiser skips.

    A `LossScaleOptimizer` lowers its scale at every such step. What is not finite even with a tiny
    scale never will be, and such a run would go on for ever without a step.
    """
    if not isinstance(optimizer, LossScaler):
        return tf.constant(False)
    return tf.convert_to_tensor(optimizer.scale_loss(1.0)) >= _SMALLEST_SCALE


def without_new_faults(variables: list, before: list) -> tf.Tensor:
    """Whether no element of these variables has ceased to be finite since `before`, a scalar."""
    spoilt = [
        tf.reduce_any(~tf.math.is_finite(variable.value) & tf.math.is_finite(value))
        for variable, value in zip(variables, before, strict=True)
        if value.dtype.is_floating
    ]
    return ~tf.reduce_any(tf.stack([tf.constant(False), *spoilt]))


def why_not_applied(
    step: int, kind: int, label: int, size: int, loss: float, names: list[str]
) -> str:
    """What `fit` says of a step that it did not apply.

    Args:
        step: its number, counted from 1.
        kind: of `kind_of_fault`, or `LABEL`.
        label: the label that is outside of the vocabulary, if there is one.
        size: of the vocabulary, 0 if no label is outside.
        loss: the mean over the tokens.
        names: of the trained variables, in the order of the gradients.
    """
    beginning = f"Step {step} was not applied and training ended, because"
    if kind == LABEL:
        return (
            f"{beginning} a label is not an id of the vocabulary, from 0 to {size - 1}: mend the "
            f"data, or mask the token if it does not count. Received: label={label}, "
            f"vocabulary size={size}"
        )
    if kind == COUNT:
        return (
            f"{beginning} its objective counted less than nothing: the count is how many tokens, "
            f"rows or numbers the sum is over. Received: loss={loss}, of a negative count"
        )
    advice = "look at this batch, or train with a lower learning rate or with clip_norm"
    if kind == LOSS:
        return f"{beginning} its loss is not finite: {advice}. Received: loss={loss}"
    if kind == STATE:
        return (
            f"{beginning} a state of a layer, such as a moving mean, would not be finite after it: "
            f"look at this batch. Received: loss={loss}"
        )
    index = kind - GRADIENT
    of = f"gradient of {names[index]}" if index < len(names) else "norm of the gradients"
    return f"{beginning} the {of} is not finite: {advice}. Received: loss={loss}"


def why_no_batch(step: int, steps: int | None, initial_step: int) -> str:
    """What `fit` says if the data end before the training does; `step` steps are done."""
    return (
        f"The data ended before step {step + 1}: repeat them without end with dataset.repeat(), or "
        f"ask for fewer steps. Received: steps={steps}, initial_step={initial_step}"
    )


def why_not_read(step: int, number: int, error: Exception) -> str:
    """What `fit` says if reading one of the batches of the next `number` steps failed."""
    which = f"step {step + 1}" if number == 1 else f"one of the steps {step + 1} to {step + number}"
    return (
        f"The batch of {which} could not be read: mend the data, or the functions that the dataset "
        f"maps over them. Received: {type(error).__name__}: {_reason(error)}"
    )


def _reason(error: Exception) -> str:
    """The first line of an error of TensorFlow without the names of its graph."""
    told = re.sub(r"\{\{.*?\}\}", "", getattr(error, "message", str(error)))
    told = told.removeprefix("Graph execution error:").lstrip()
    told = re.sub(r"^(Detected at node .*\n((<stack.*>|[ \t].*|)\n)*)+", "", told)
    return told.strip().splitlines()[0].rstrip(".")
