"""Runs that are killed anywhere end with the weights of runs that are not."""

import random
import signal

import numpy as np
import pytest
from processes import HERE, finish, read_until, start, start_workers

STEPS = 40
PROGRAM = HERE / "survival_program.py"


def _launch(strategy, directory, *options):
    command = (PROGRAM, directory, strategy, STEPS, *options)
    return start_workers(2, *command) if strategy == "multi_worker" else [start(*command)]


@pytest.mark.parametrize("strategy", ["none", "mirrored", "multi_worker"])
def test_a_run_that_is_killed_and_stopped_ends_as_one_that_was_not(strategy, tmp_path):
    random_steps = random.Random(strategy)
    killed = random_steps.randrange(5, 18)
    stopped = random_steps.randrange(20, 30)

    *others, victim = _launch(strategy, tmp_path, "reference")
    read_until(victim, "reference done")
    read_until(victim, f"step {killed}")
    victim.send_signal(signal.SIGKILL)
    assert finish([victim])[0][0] == -signal.SIGKILL
    for code, _, errors in finish(others, seconds=40):
        assert code == 1
        assert "UserError: Lost worker 1 (127.0.0.1:" in errors
        assert errors.strip().endswith("they go on from the last checkpoint.")

    *others, victim = _launch(strategy, tmp_path)
    read_until(victim, f"step {stopped}")
    victim.send_signal(signal.SIGTERM)
    for code, output, errors in finish([*others, victim]):
        assert code == 0, errors
        assert "ended" not in output

    processes = _launch(strategy, tmp_path)
    for code, output, errors in finish(processes):
        assert code == 0, errors
        first = int(output.split("\n", 1)[0].removeprefix("from "))
        assert first >= stopped  # where it was stopped, not where it was last saved
        assert "ended at" in output

    _assert_equal(tmp_path / "final0.npz", tmp_path / "reference" / "final0.npz")
    for name in ("last.npz", "best.npz"):
        _assert_equal(tmp_path / name, tmp_path / "reference" / name)
    for index in range(1, len(processes)):
        _assert_equal(tmp_path / f"final{index}.npz", tmp_path / "reference" / f"final{index}.npz")


def test_a_checkpoint_whose_writer_is_killed_is_not_loaded(tmp_path):
    (process,) = _launch("none", tmp_path, "die-writing=4")
    code, output, _ = finish([process])[0]
    assert code == -signal.SIGKILL
    assert len(list(tmp_path.glob(".last.npz-*"))) == 1
    saved = int(np.load(tmp_path / "last.npz")["progress/step"])
    assert f"step {saved}\n" in output

    whole = (tmp_path / "last.npz").read_bytes()
    (tmp_path / "last.npz").write_bytes(whole[: len(whole) // 2])
    before = int(np.load(tmp_path / "previous.npz")["progress/step"])
    (process,) = _launch("none", tmp_path)
    code, output, errors = finish([process])[0]
    assert code == 0, errors
    assert output.startswith(f"from {before}\n")
    assert before < saved
    assert "last.npz is not a checkpoint" in (tmp_path / "log.txt").read_text()
    assert not list(tmp_path.glob(".last.npz-*"))


def _assert_equal(path, other):
    with np.load(path) as found, np.load(other) as expected:
        assert set(found) == set(expected)
        for name in set(found) - {"progress/seconds"}:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
