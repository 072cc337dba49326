"""What would be trained wrongly, or not at all, is refused before the first step."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.training import (
    fit,
    projected_token_objective,
    squared_error_objective,
    token_objective,
)


def _fit(model, optimizer, steps=1, **arguments):
    ids = tf.ones((2, 3), tf.int32)
    batches = tf.data.Dataset.from_tensors((ids, ids, ids > 0)).repeat()
    return fit(model, batches, steps, optimizer=optimizer, **arguments)


def _model():
    return keras.Sequential([keras.Input((None,)), keras.layers.Embedding(5, 5)])


@pytest.mark.parametrize("optimizer", ["adam", keras.optimizers.Adam], ids=["name", "class"])
def test_what_is_no_optimiser_is_refused(optimizer):
    with pytest.raises(
        ValueError, match=r"an optimiser of keras\.optimizers.*Received: optimizer="
    ):
        _fit(_model(), optimizer)


def test_an_optimiser_of_another_model_is_refused_with_the_weight_it_lacks():
    optimizer = keras.optimizers.SGD()
    optimizer.build(_model().trainable_variables)
    with pytest.raises(
        ValueError, match=r"other variables.*Received: optimizer=sgd.* without .*embed"
    ):
        _fit(_model(), optimizer)


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"steps_per_call": 0}, "steps_per_call=0"),
        ({"steps_per_call": -1}, "steps_per_call=-1"),
        ({"steps_per_call": 2.0}, r"steps_per_call=2\.0"),
        ({"steps_per_call": None}, "steps_per_call=None"),
        ({"steps_per_call": True}, "steps_per_call=True"),
        ({"accumulate": 0}, "accumulate=0"),
        ({"accumulate": 1.5}, r"accumulate=1\.5"),
        ({"steps": -1}, "steps=-1"),
        ({"steps": "9"}, "steps='9'"),
        ({"steps": 3, "initial_step": 4}, "steps=3, initial_step=4"),
        ({"initial_step": -1}, "initial_step=-1"),
        ({"steps_per_epoch": 0}, "steps_per_epoch=0"),
        ({"clip_norm": 0.0}, r"clip_norm=0\.0"),
        ({"clip_norm": -1}, "clip_norm=-1"),
        ({"clip_norm": float("nan")}, "clip_norm=nan"),
    ],
    ids=str,
)
def test_numbers_that_no_training_has_are_refused(arguments, received):
    with pytest.raises(ValueError, match=f"Received: {received}$"):
        _fit(_model(), keras.optimizers.SGD(), **arguments)


def test_numbers_of_numpy_are_numbers_and_no_steps_are_left_at_the_end():
    assert (
        _fit(_model(), keras.optimizers.SGD(), steps=np.int64(2), steps_per_call=np.int32(2)) == 2
    )
    assert _fit(_model(), keras.optimizers.SGD(), steps=3, initial_step=3) == 3


def _returns(*values):
    return lambda model, batch: values if len(values) != 1 else values[0]


ONE = 1.0
OBJECTIVES = {
    "none": (_returns(None), "two numbers.*Received: None from .*lambda"),
    "a scalar": (_returns(tf.constant(ONE)), "two numbers.*Received: <tf.Tensor"),
    "three values": (_returns(ONE, ONE, ONE), "two numbers.*Received: 3 values"),
    "a vector": (_returns([ONE, ONE], ONE), r"tf\.reduce_sum.*Received: sum\.shape=\(2,\)"),
    "counts": (_returns(ONE, [ONE, ONE]), r"tf\.reduce_sum.*Received: count\.shape=\(2,\)"),
    "integers": (_returns(tf.constant(1), ONE), "floating number.*Received: sum of dtype int32"),
    "a string": (_returns("loss", ONE), "floating number.*Received: sum of dtype string"),
    "a string as count": (_returns(ONE, "1"), "whole number.*Received: count of dtype string"),
    "no number": (_returns(object(), ONE), "floating number.*Received: sum of <object"),
    "a flag": (_returns(ONE, True), "whole number.*Received: count of dtype bool"),
    "no count": (_returns(ONE, 0), r"more than nothing.*Received: count=0\.0"),
    "a negative count": (_returns(ONE, -2), r"more than nothing.*Received: count=-2\.0"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_is_no_sum_and_count_is_refused(name):
    objective, words = OBJECTIVES[name]
    with pytest.raises(ValueError, match=words) as caught:
        _fit(_model(), keras.optimizers.SGD(), objective=objective)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [1, 2, 5, "name"])
@pytest.mark.parametrize(
    "objective", [token_objective(), projected_token_objective(), squared_error_objective()]
)
def test_batches_of_other_parts_are_refused(objective, keep):
    if keep == 2 and "squared" in objective.__qualname__:
        keep = 3
    ids = tf.ones((2, 3), tf.int32)
    batch = {"ids": ids} if keep == "name" else (ids,) * keep
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    given = "dict" if keep == "name" else f"{keep} parts"
    with pytest.raises(ValueError, match=f"a tuple of inputs, .*Received: batch of {given}"):
        fit(_model(), batches, 1, optimizer=keras.optimizers.SGD(), objective=objective)


def test_targets_that_would_be_broadcast_are_refused():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    batches = tf.data.Dataset.from_tensors((tf.ones([4, 3]), tf.ones([4]))).repeat()
    with pytest.raises(ValueError, match=r"nothing is broadcast.*Received: targets\.shape=\(4,\)"):
        fit(
            model, batches, 1, optimizer=keras.optimizers.SGD(),
            objective=squared_error_objective(),
        )  # fmt: skip
