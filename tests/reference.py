"""The reference numbers in `cases/numeric_cases.json`, as pytest parameters."""

import json
from pathlib import Path

import pytest

CASES = json.loads((Path(__file__).parent / "cases" / "numeric_cases.json").read_text())


def cases(group: str, prefix: str = "") -> list:
    """The reference cases of a group whose id starts with `prefix`, as pytest parameters."""
    return [
        pytest.param(case, id=case["id"])
        for case in CASES["groups"][group]
        if case["id"].startswith(prefix)
    ]
