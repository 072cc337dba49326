import itertools

import pytest

from keras_attn.training import Budget, ValidationSchedule


def _simulated(minutes, validations, cost, at_end=1, seconds_a_step=1.0):
    """A run whose validations would take `cost(used)` seconds: when they began, what they took."""
    schedule = ValidationSchedule(Budget(minutes=minutes), validations, at_end)
    schedule.begin(0.0)
    seconds, found = 0.0, []
    while seconds < 60 * minutes:
        seconds += seconds_a_step
        used = min(seconds / (60 * minutes), 1.0)
        if schedule.is_due(used):
            took = min(cost(used), schedule.limits(used).seconds)
            schedule.took(took, used)
            seconds += took
            found.append((used, took))
    if found[-1][0] < 1.0:  # the last one went past the end of the budget
        found.append((1.0, min(cost(1.0), schedule.limits(1.0).seconds)))
    for _ in range(at_end - 1):
        found.append((1.0, min(cost(1.0), schedule.limits(1.0).seconds)))
    return found


@pytest.mark.parametrize("at_end", [1, 2])
@pytest.mark.parametrize("validations", [1, 2, 10, 100])
@pytest.mark.parametrize(
    "cost",
    [
        lambda used: 0.5,
        lambda used: 20.0,
        lambda used: 60.0,
        lambda used: 1000.0,
        lambda used: 100.0 * (1.2 - used),  # a young model goes on to the limit
    ],
    ids=["half a second", "20 s", "60 s", "for ever", "falling"],
)
def test_validations_take_a_fifth_of_the_minutes_at_most(validations, cost, at_end):
    found = _simulated(6, validations, cost, at_end)
    assert sum(took for _, took in found) <= 0.2 * 360 + 1e-6
    assert found[0][0] >= 0.05
    assert found[-1][0] == 1.0
    assert all(took > 5 or took == cost(used) for used, took in found)
    if validations > 1:
        assert len(found) > at_end  # the model was looked at on its way


def test_cheap_validations_come_as_often_as_was_asked():
    assert len(_simulated(6, 10, lambda used: 0.5)) == 10


def test_the_next_validation_waits_from_the_end_of_the_last():
    found = _simulated(60, 20, lambda used: 18.0)
    assert len(found) > 10
    gaps = [
        (later - earlier) * 3600 - took
        for (earlier, took), (later, _) in itertools.pairwise(found[:-1])
    ]
    assert all(gap >= 180 - 1e-6 for gap in gaps)


def test_a_budget_of_steps_is_validated_at_the_same_steps_after_an_interruption():
    def due(first):
        schedule = ValidationSchedule(Budget(steps=33), 4)
        schedule.begin(first / 33)
        found = []
        for step in range(first + 1, 34):
            if schedule.is_due(step / 33):
                schedule.took(1e9, step / 33)
                found.append(step)
        return found

    assert due(0) == [9, 17, 25, 33]
    assert all(due(first) == [step for step in due(0) if step > first] for first in range(33))


def test_what_earlier_sessions_spent_counts():
    schedule = ValidationSchedule(Budget(minutes=1), 10)
    schedule.begin(0.1)
    schedule.took(6.0, 0.1)
    going_on = ValidationSchedule(Budget(minutes=1), 10, state=schedule.state)
    assert going_on.limits(1.0).seconds <= 6.0 + 1e-9
    assert ValidationSchedule(Budget(steps=10), 10).state == {}


def test_a_run_without_validation_is_refused():
    with pytest.raises(ValueError, match="Received: validations=0"):
        ValidationSchedule(Budget(steps=1), 0)
