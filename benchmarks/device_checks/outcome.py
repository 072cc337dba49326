"""What a check says, and how one is run."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PREAMBLES = (
    "Exception encountered when calling",
    "Graph execution error:",
    "Detected at node",
    "File ",
)
HELD, FAILED, MEASURED, SKIPPED = "held", "FAILED", "measured", "skipped"


@dataclass(frozen=True)
class Outcome:
    """Whether it held, a sentence or figures to read, and the same as values for the file."""

    status: str
    words: str
    values: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Something to run on the machine, by the name of its row."""

    group: str
    name: str
    run: Callable[[], Outcome]


def compared(errors: dict[str, float], tolerance: float, note: str = "") -> Outcome:
    """Held if no error is above the tolerance; an error that is not a number is."""
    held = all(error <= tolerance for error in errors.values())
    found = ", ".join(f"{what} {error:.1e}" for what, error in errors.items())
    words = f"{found} (at most {tolerance:.0e}){'; ' if note else ''}{note}"
    return Outcome(HELD if held else FAILED, words, {"errors": errors, "tolerance": tolerance})


def measured(words: str, **values) -> Outcome:
    """Figures, which no one has set a bound for."""
    return Outcome(MEASURED, words, values)


def skipped(reason: str) -> Outcome:
    """What cannot be run on this machine, and why."""
    return Outcome(SKIPPED, reason)


def row_of(check: Check) -> dict:
    """Run a check. Whatever it raises is its row, in a line."""
    started = time.perf_counter()
    try:
        outcome = check.run()
    except Exception as error:
        outcome = Outcome(FAILED, f"{type(error).__name__}: {first_line(str(error))}")
    return make_row(check.group, check.name, outcome, time.perf_counter() - started)


def first_line(message: str) -> str:
    """The first line that says something: not how Keras and TensorFlow begin every message."""
    lines = [re.sub(r"\x1b\[\d*m", "", line).strip() for line in message.splitlines()]
    return next((line for line in lines if line and not line.startswith(PREAMBLES)), "no message")


def make_row(group: str, name: str, outcome: Outcome, seconds: float) -> dict:
    """A line of the report."""
    return {
        "group": group,
        "name": name,
        "status": outcome.status,
        "words": outcome.words,
        "seconds": round(seconds, 1),
        **outcome.values,
    }
