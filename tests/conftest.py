"""Shared by all tests: quiet TensorFlow, the reference numbers, reproducible weights."""

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import pytest

CASES = json.loads((Path(__file__).parent / "cases" / "numeric_cases.json").read_text())


def cases(group: str, prefix: str = "") -> list:
    """The reference cases of a group whose id starts with `prefix`, as pytest parameters."""
    return [
        pytest.param(case, id=case["id"])
        for case in CASES["groups"][group]
        if case["id"].startswith(prefix)
    ]


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(20261129)
