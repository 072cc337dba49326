"""All checks in their order."""

from device_checks import cudnn, layers, speed, steps
from device_checks.machine import Machine
from device_checks.outcome import Check


def list_checks(machine: Machine, quick: bool, only: list[str]) -> list[Check]:
    """The checks for a machine, or those of them whose group or name has a word of `only`."""
    checks = [
        check
        for module in (layers, cudnn, steps, speed)
        for check in module.list_checks(machine, quick)
    ]
    words = [word.lower() for word in only]
    return [
        check
        for check in checks
        if not words or any(word in f"{check.group}: {check.name}".lower() for word in words)
    ]
