"""Two replicas in a process of its own: logical devices are set before TensorFlow starts."""

import re

import pytest
from processes import HERE, finish, start

PROGRAM = HERE / "replica_program.py"
CHECKS = re.findall(r"^def check_(\w+)", PROGRAM.read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def held():
    code, output, errors = finish([start(PROGRAM)])[0]
    assert code == 0, errors
    return output.split(), errors


@pytest.mark.parametrize("check", CHECKS)
def test_on_two_replicas(check, held):
    output, errors = held
    assert f"check_{check}" in output, errors[-3000:]
