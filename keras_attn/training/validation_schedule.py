"""When a run is validated, and how long that may take."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from keras_attn.training.budget import Budget

SHARE_OF_MINUTES = 0.2
"""What all validations together may take of a budget of minutes."""
SEEN_BEFORE_FIRST = 0.05
YOUNG = 0.25


@dataclass(frozen=True)
class ValidationLimits:
    """What a validation has to keep to.

    Args:
        seconds: after which it scores what it has and ends.
        is_young: whether the model has seen little yet, so that long answers are not worth waiting
            for.

    Example:
        >>> from keras_attn.training import ValidationLimits
        >>> ValidationLimits(seconds=30.0).is_young
        False
    """

    seconds: float = math.inf
    is_young: bool = False


NO_LIMITS = ValidationLimits()


class ValidationSchedule:
    """Spreads validations over a budget so that they take a fifth of its minutes at most.

    One is due when a share `1 / validations` of the budget has gone by since the last one ended,
    what that one cost included; none before a twentieth of the budget is used; one at the end of
    the budget in any case. Of a budget of minutes a fifth is kept for validations, and of that
    enough for those at the end; one in between is left out if the last one says that it would take
    more than is left. A budget of steps knows no such limit.

    Args:
        budget: of the run.
        validations: how often a whole budget is validated, the last time at its end.
        at_end: how many validations follow the last step: one, or two if averaged weights are
            validated as well.
        state: what an earlier session saved of `state`.

    Attributes:
        seconds: that all validations took.

    Raises:
        ValueError: if there is to be no validation.

    Example:
        >>> from keras_attn.training import Budget, ValidationSchedule
        >>> schedule = ValidationSchedule(Budget(minutes=10), validations=10)
        >>> schedule.begin(used=0.0)
        >>> schedule.is_due(0.09), schedule.is_due(0.1)
        (False, True)
        >>> schedule.took(30.0, used=0.1)
        >>> schedule.is_due(0.2), schedule.is_due(0.25)
        (False, True)
    """

    def __init__(
        self,
        budget: Budget,
        validations: int,
        at_end: int = 1,
        state: Mapping[str, float] | None = None,
    ):
        if validations < 1:
            raise ValueError(
                f"A run is validated at its end at least. Received: validations={validations}"
            )
        self.seconds = float((state or {}).get("validation_seconds", 0.0))
        self._interval = 1.0 / validations
        self._at_end = at_end
        self._budget_seconds = 60 * budget.minutes if budget.minutes else math.inf
        self._all_seconds = SHARE_OF_MINUTES * self._budget_seconds
        # Until one was measured; what has no limit needs no estimate.
        self._expected = self._all_seconds / (at_end + (validations > 1)) if budget.minutes else 0.0
        self._due = 1.0

    @property
    def state(self) -> dict[str, float]:
        """What a budget of minutes has to know when a run goes on."""
        return {} if math.isinf(self._all_seconds) else {"validation_seconds": self.seconds}

    def begin(self, used: float) -> None:
        """Tell of the share of the budget that was used before this session."""
        passed = math.floor(used / self._interval + 1e-9)
        self._set_due((passed + 1) * self._interval)

    def is_due(self, used: float) -> bool:
        return used >= self._due - 1e-9

    def limits(self, used: float) -> ValidationLimits:
        """Of a validation that begins now."""
        is_last = used >= 1.0
        others = self._at_end - 1 if is_last else self._at_end
        left = self._all_seconds - self.seconds - others * self._expected
        if is_last:  # whatever those before took
            left = max(left, self._all_seconds / (self._at_end + 1))
        return ValidationLimits(left, is_young=used < YOUNG)

    def took(self, seconds: float, used: float) -> None:
        """Tell how long a validation took that began when so much of the budget was used."""
        self.seconds += seconds
        if used >= 1.0:
            self._due = math.inf
        elif math.isinf(self._budget_seconds):
            self.begin(used)  # on the same steps, whether the run was interrupted or not
        else:
            self._expected = seconds
            self._set_due(used + seconds / self._budget_seconds + self._interval)

    def _set_due(self, due: float) -> None:
        needed = self._expected * (1 + self._at_end)
        is_affordable = self.seconds + needed <= self._all_seconds + 1e-9
        self._due = min(max(due, SEEN_BEFORE_FIRST), 1.0) if is_affordable else 1.0
