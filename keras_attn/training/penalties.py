"""The losses that a model adds to its objective, and what they are where a batch is cut up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import keras
import tensorflow as tf

RULES = ("sum", "mean")


class Penalties(NamedTuple):
    """The model's own losses for some rows of a batch, scalars in float32.

    Attributes:
        of_batch: what is counted once for the whole batch.
        of_part: what is added up over the parts of the batch, or None if nothing is.
    """

    of_batch: tf.Tensor
    of_part: tf.Tensor | None


def penalties(model: keras.Model, share: tf.Tensor, parts: int, rule: str | None) -> Penalties:
    """The losses of a model that has just been called on a part of a batch.

    Regularisers of weights are counted once. A regulariser of activity, which Keras divides by the
    rows of the call, is a mean over rows: that of the batch is the mean of the parts, weighted by
    their rows. Of what a layer gives to `add_loss` nothing is known but its value, and `rule` says
    what it is: a `"sum"` over rows, or a `"mean"` over rows. If there is one part, it is the batch.

    Args:
        model: built and called.
        share: of the rows of the batch that are in this part.
        parts: how many parts there are, of all replicas.
        rule: "sum", "mean" or None.

    Raises:
        ValueError: if there are several parts and a layer adds a loss without a rule.
    """
    in_call = [(layer, loss) for layer in model._flatten_layers() for loss in _own_losses(layer)]
    of_batch = [_scalar(loss) for loss in model._get_regularization_losses()]
    if parts == 1:
        return Penalties(_sum([*of_batch, *(_scalar(loss) for _, loss in in_call)]), None)
    if not in_call:
        return Penalties(_sum(of_batch), None)
    of_part = []
    for layer, loss in in_call:
        if _is_mean_activity(layer, loss):
            of_part.append(share * _scalar(loss))
        elif rule is None:
            raise ValueError(
                "A layer gives a loss to add_loss, and the batch is worked on in parts: say with "
                'fit(added_losses="sum") or fit(added_losses="mean") whether it is a sum or a mean '
                f"over rows. Received: added_losses=None, layer {layer.name} and {parts} parts"
            )
        else:
            of_part.append(_scalar(loss) if rule == "sum" else share * _scalar(loss))
    return Penalties(_sum(of_batch), _sum(of_part))


@contextmanager
def losses_of_threads(model: keras.Model) -> Iterator[None]:
    """While this lasts every thread has its own list of the losses that layers add.

    A strategy traces its replicas in threads by turns: a layer that waits for the other replicas,
    such as synchronised batch normalisation, would leave them one list for all.
    """
    layers = model._flatten_layers()
    for layer in layers:
        vars(layer)["_losses"] = _LossesOfThread()
    try:
        yield
    finally:
        for layer in layers:
            vars(layer)["_losses"] = []


class _LossesOfThread(threading.local):
    """What Keras asks of the list of a layer's losses, for each thread by itself."""

    def __init__(self):
        self._items = []

    def append(self, loss):
        self._items.append(loss)

    def extend(self, losses):
        self._items.extend(losses)

    def clear(self):
        self._items.clear()

    def __getitem__(self, index):
        return self._items[index]


def _own_losses(layer) -> list:
    return layer._get_own_losses()


def _is_mean_activity(layer, loss) -> bool:
    """Whether a loss is what `Layer.__call__` makes of a regulariser of activity.

    It is the one that is divided by a number of rows there. What looks otherwise is taken for a
    loss of which nothing is known, and needs a rule.
    """
    if layer.activity_regularizer is None or loss.op.type != "DivNoNan":
        return False
    rows = loss.op.inputs[1]
    if tf.get_static_value(rows) is not None:
        return True
    while rows.op.type in ("Cast", "Identity"):
        rows = rows.op.inputs[0]
    return rows.op.type == "StridedSlice" and rows.op.inputs[0].op.type == "Shape"


def _scalar(loss) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(loss, tf.float32))


def _sum(losses: list) -> tf.Tensor:
    return tf.add_n(losses) if losses else tf.constant(0.0)
