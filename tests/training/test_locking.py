"""One process at a time in a run directory, whatever became of the one before."""

import json
import os
import subprocess
import sys
import threading
import time
import uuid

import pytest
from processes import ROOT

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import path_of
from keras_attn.training import RunDirectory
from keras_attn.training.locking import LOCK_FILE, Lock, _Holder, _started


@pytest.fixture(params=["disk", "ram"])
def directory(request, tmp_path):
    return tmp_path if request.param == "disk" else path_of(f"ram://{uuid.uuid4().hex}/run")


def _lock(directory, stale_seconds=0.5):
    return Lock(directory, renew_seconds=0.1, stale_seconds=stale_seconds).held()


def _left_behind(directory, **changes) -> dict:
    """The lock of a process of which only the file is left."""
    with _lock(directory):
        content = json.loads((directory / LOCK_FILE).read_bytes()) | changes
    _put(directory, json.dumps(content).encode())
    return content


def _put(directory, content):
    with written_whole(directory / LOCK_FILE) as file:
        file.write(content)


def test_a_second_start_is_refused_and_a_third_is_not(directory):
    run, other = RunDirectory(directory), RunDirectory(directory)
    with run.locked():
        with (
            pytest.raises(UserError, match=rf"in use by process {os.getpid()} on \S+ since 20"),
            other.locked(),
        ):
            pass
        run.require_lock()
    with other.locked():
        assert (directory / LOCK_FILE).exists()
    assert not (directory / LOCK_FILE).exists()


def test_the_lock_is_given_back_on_every_way_out(directory):
    for error in (KeyboardInterrupt, ValueError, SystemExit):
        with pytest.raises(error), _lock(directory):
            raise error
        assert not (directory / LOCK_FILE).exists()


def test_a_lock_of_a_process_that_was_killed_is_taken_over_at_once(tmp_path):
    program = (
        "import sys, pathlib; from keras_attn.training.locking import Lock\n"
        "with Lock(pathlib.Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=rf"in use by process {process.pid} on"), _lock(tmp_path):
        pass
    process.kill()
    while _started(process.pid):  # dead, though nobody has asked for its exit code
        time.sleep(0.01)
    started = time.monotonic()
    with _lock(tmp_path, stale_seconds=60):
        assert time.monotonic() - started < 2
    process.communicate()


def test_a_process_number_used_by_another_program_holds_nothing(tmp_path):
    _left_behind(tmp_path, started="1")
    with _lock(tmp_path, stale_seconds=60):
        pass


@pytest.mark.parametrize("changes", [{"machine": "elsewhere"}, {"machine": ""}, None])
def test_what_cannot_be_asked_from_here_is_watched_and_taken_over(directory, changes, capsys):
    """A process of another machine, of another boot, or one that is not known at all."""
    _left_behind(directory, **(changes or {}))
    if changes is None:
        _put(directory, b"nonsense")
    started = time.monotonic()
    with _lock(directory):
        assert time.monotonic() - started > 0.5
    assert "whether that still runs" in capsys.readouterr().err


def test_a_process_of_another_machine_that_renews_its_lock_is_not_disturbed(directory):
    content = _left_behind(directory, machine="elsewhere", host="far", process=7)
    left = threading.Event()

    def renew():
        renewals = 0
        while not left.wait(0.1):
            renewals += 1
            _put(directory, json.dumps({**content, "renewals": renewals}).encode())

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        started = time.monotonic()
        lock = _lock(directory, stale_seconds=30)
        with pytest.raises(UserError, match="process 7 on far"), lock:
            pass
        assert time.monotonic() - started < 10
    finally:
        left.set()
        thread.join()


def test_whoever_lost_its_lock_writes_no_more(directory):
    with _lock(directory) as lock:
        content = json.loads((directory / LOCK_FILE).read_bytes())
        lock.require()
        other = {**content, "process": 7, "host": "far", "token": "other"}
        with pytest.raises(UserError, match="taken over by process 7 on far"):
            _renew_until_noticed(directory, json.dumps(other).encode(), lock)
    assert _Holder.read((directory / LOCK_FILE).read_bytes()).host == "far"  # it is not ours


def _renew_until_noticed(directory, content, lock):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        lock.require()
        _put(directory, content)
        time.sleep(0.05)


def test_a_lock_sweeps_what_killed_processes_had_begun(directory):
    run = RunDirectory(directory)
    run.snapshots.mkdir(parents=True, exist_ok=True)
    for name in (".last.npz-a_3x", ".average.npz-12ab", ".pairs.bin-abcd"):
        (directory / name).write_bytes(b"half")
    (run.snapshots / ".000000010.npz-xxxx").write_bytes(b"half")
    (directory / ".notes-mine").write_bytes(b"kept")
    with run.locked():
        found = {path.name for path in [*directory.glob(".*"), *run.snapshots.glob(".*")]}
    assert found == {".notes-mine"}
