"""Run the checks in a process of their own, and go on behind the one that ended it.

A kernel that stops the process, memory that runs out and replicas that wait for one another for
ever are what a new device is tried for, so they must not be the end of the report.
"""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from device_checks.outcome import FAILED, Outcome, make_row

BENCHMARKS = str(Path(__file__).parents[1])


def watch(command: Sequence[str], patience: float) -> Iterator[dict]:
    """The messages of a program of checks, see `program.main`, up to its end.

    Where the process ends within a check, or says nothing for `patience` seconds, the check becomes
    a row that failed, and a new process does those after it. A process that ends before its first
    check is a message `{"refused": why}`, the last.

    Args:
        command: the program; ` --start N` is added to it.
        patience: seconds that a check may take.
    """
    start = 0
    while True:
        running, began, end = None, time.monotonic(), ""
        for message in _messages([*command, "--start", str(start)], patience):
            if "begin" in message:
                running, began = message["begin"], time.monotonic()
                start = running["index"] + 1
            elif "row" in message:
                running = None
            if "end" in message:
                end = message["end"]
            else:
                yield message
            if "done" in message or "refused" in message:
                return
        if running is None:
            yield {"refused": f"The process of the checks {end}"}
            return
        outcome = Outcome(FAILED, f"The process {end}")
        seconds = time.monotonic() - began
        yield {"row": make_row(running["group"], running["name"], outcome, seconds)}


def _messages(command: Sequence[str], patience: float) -> Iterator[dict]:
    """The lines of JSON that a process writes, and at last `{"end": how it ended}`."""
    paths = [BENCHMARKS, os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        lines = queue.Queue()
        threading.Thread(target=_collect, args=(process.stdout, lines), daemon=True).start()
        try:
            while (line := lines.get(timeout=patience)) is not None:
                if line.startswith("{"):
                    yield json.loads(line)
            yield {"end": f"{_how(process.wait())}; its last words: {_last_line(errors)}"}
        except queue.Empty:
            yield {"end": f"said nothing for {patience:.0f} seconds and was stopped"}
        finally:
            process.kill()
            process.wait()


def _collect(stream, lines: queue.Queue) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _last_line(errors) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    return lines[-1] if lines else "none"
