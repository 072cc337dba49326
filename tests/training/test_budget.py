import keras
import numpy as np
import pytest

from keras_attn.training import Budget, Pace, warmed_up_then_linear


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        (Budget(steps=100), 0.25),
        (Budget(minutes=1), 0.5),
        (Budget(steps=100, minutes=1), 0.5),
        (Budget(steps=10), 1.0),
    ],
)
def test_the_budget_that_is_used_faster_decides(budget, used):
    assert budget.used(step=25, seconds=30.0) == used


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({}, "steps=None"),
        ({"steps": 0}, "steps=0"),
        ({"minutes": -1}, "minutes=-1"),
        ({"minutes": float("nan")}, "minutes=nan"),
        ({"minutes": float("inf")}, "minutes=inf"),
    ],
)
def test_a_budget_that_is_none_or_not_positive_is_refused(arguments, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        Budget(**arguments)


def test_the_rate_rises_to_its_peak_and_falls_to_nothing():
    rate = warmed_up_then_linear(0.1, 10)
    np.testing.assert_allclose(rate(0.0, 0), 0.01)
    np.testing.assert_allclose(rate(0.0, 9), 0.1)
    np.testing.assert_allclose(rate(0.5, 500), 0.05)
    assert 0 < rate(1.0, 1000) < 1e-3


def test_the_pace_sets_the_rate_of_each_step_and_stops_at_the_end():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.optimizer = keras.optimizers.SGD()
    model.stop_training = False
    pace = Pace(Budget(steps=4), lambda used, step: (1 - used) + step)
    pace.set_model(model)
    pace.set_params({"initial_step": 0})
    pace.on_train_begin()
    rates = []
    for step in range(4):
        assert not model.stop_training
        pace.on_train_batch_begin(step)
        rates.append(float(model.optimizer.learning_rate))
        pace.on_train_batch_end(step)
    np.testing.assert_allclose(rates, [1.0, 1.75, 2.5, 3.25])
    assert model.stop_training


def test_time_of_earlier_sessions_counts():
    pace = Pace(Budget(minutes=1), lambda used, step: 0.1, seconds=45.0)
    assert 0.75 <= pace.used < 0.76
