"""What keeps a step from being applied, found inside of the step and said outside of it."""

import tensorflow as tf

NONE, LOSS, GRADIENT = 0, 1, 2  # GRADIENT + i is the gradient of variable i, counted from 0


def kind_of_fault(total, count, norm, gradients: list) -> tf.Tensor:
    """What is not finite, a scalar integer: `NONE`, `LOSS`, or `GRADIENT` and an index added.

    In a good step this looks at three numbers. The index is the number of gradients where all of
    them are finite but their norm is not.

    Args:
        total: the sum of the objective over all replicas.
        count: its count.
        norm: of the gradients.
        gradients: the sums over all replicas.
    """
    loss_is_finite = tf.math.is_finite(total) & tf.math.is_finite(count)

    def of_gradient():
        finite = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
        return GRADIENT + tf.argmin(tf.stack([*(tf.cast(x, tf.int32) for x in finite), 0]))

    def of_loss():
        return tf.constant(LOSS, tf.int64)

    return tf.cond(
        loss_is_finite & tf.math.is_finite(norm),
        lambda: tf.constant(NONE, tf.int64),
        lambda: tf.cond(loss_is_finite, of_gradient, of_loss),
    )


def why_not_applied(
    step: int, kind: int, label: int, size: int, loss: float, names: list[str]
) -> str:
    """What `fit` says of a step that it did not apply.

    Args:
        step: its number, counted from 1.
        kind: of `kind_of_fault`.
        label: the label that is outside of the vocabulary, if there is one.
        size: of the vocabulary, 0 if no label is outside.
        loss: the mean over the tokens.
        names: of the trained variables, in the order of the gradients.
    """
    beginning = f"Step {step} was not applied and training ended, because"
    if size:
        return (
            f"{beginning} a label is not an id of the vocabulary, from 0 to {size - 1}: mend the "
            f"data, or mask the token if it does not count. Received: label={label}, "
            f"vocabulary size={size}"
        )
    advice = "look at this batch, or train with a lower learning rate or with clip_norm"
    if kind == LOSS:
        return f"{beginning} its loss is not finite: {advice}. Received: loss={loss}"
    index = kind - GRADIENT
    of = f"gradient of {names[index]}" if index < len(names) else "norm of the gradients"
    return f"{beginning} the {of} is not finite: {advice}. Received: loss={loss}"
