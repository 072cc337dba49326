"""The weights after 20 steps are those of one device, whatever the devices and processes."""

import numpy as np
import pytest
from processes import HERE, finish, start, start_workers

PROGRAM = HERE / "equality_program.py"
# Tolerances of what is trained on one device and on two replicas of one process.
MIRRORED = {
    "adding, sgd": 1e-5,
    "adding, xla": 1e-5,
    # The variance is a difference of sums over the replicas, not the mean of squared differences.
    "batch normalisation": 1e-4,
    "normalised, read in shares": 1e-4,
    "rnnsearch, accumulated": 1e-5,
    "transformer, weighted, many steps a call": 1e-5,
    "dense, float16": 1e-3,
    "penalised": 1e-4,  # for the same reason
    "penalised tokens, weighted, some all padding": 1e-5,
    "tokens, float16, weighted, some all padding": 1e-3,
    "dense, bfloat16": 5e-2,
}
WORKERS = {
    2: (
        "rnnsearch, accumulated",
        "dense, float16",
        "penalised tokens, weighted, some all padding",
        "normalised, read in shares",
    ),
    3: ("adding, xla", "transformer, weighted, many steps a call", "normalised, read in shares"),
}


def _output(path) -> dict:
    with np.load(path) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """What came out of all the cases on one device, and on two replicas of one process."""
    directory = tmp_path_factory.mktemp("equality")
    one = start(PROGRAM, directory / "one", "none", 1, *MIRRORED)
    _finished([one, start(PROGRAM, directory / "mirrored", "mirrored", 2, *MIRRORED)])
    return directory


def _finished(processes):
    for code, _, errors in finish(processes):
        assert code == 0, errors


@pytest.mark.parametrize("case", MIRRORED)
def test_replicas_train_as_one_device(case, directory):
    _assert_alike(directory / "one-0.npz", directory / "mirrored-0.npz", case, MIRRORED[case])


@pytest.mark.parametrize("number", WORKERS)
def test_workers_train_as_one_device(number, directory):
    _finished(
        start_workers(
            number, PROGRAM, directory / f"workers{number}", "multi_worker", 1, *WORKERS[number]
        )
    )
    for case in WORKERS[number]:
        for index in range(number):
            found = directory / f"workers{number}-{index}.npz"
            _assert_alike(directory / "one-0.npz", found, case, MIRRORED[case])


def _assert_alike(one, other, case, tolerance):
    one, other = _output(one), _output(other)
    names = [name for name in one if name.startswith(f"{case}: ")]
    assert len(names) > 4
    for name in names:
        np.testing.assert_allclose(
            other[name], one[name], rtol=tolerance, atol=tolerance, err_msg=name
        )
