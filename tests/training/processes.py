"""Programs that train, started as processes of their own and watched line by line."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def start(*command, environment: dict | None = None, **options) -> subprocess.Popen:
    """Python with these arguments, its output as text."""
    paths = [str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def start_workers(number: int, *command, **options) -> list[subprocess.Popen]:
    """The same program as so many workers of one cluster on this machine."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(number)]
    return [
        start(
            *command,
            environment={
                "TF_CONFIG": json.dumps(
                    {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
                )
            },
            **options,
        )
        for index in range(number)
    ]


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def read_until(process: subprocess.Popen, line: str) -> None:
    """Read standard output up to that line."""
    for found in process.stdout:
        if found.strip() == line:
            return
    raise AssertionError(f"{line!r} never came: {process.stderr.read()[-2000:]}")


def finish(processes: list[subprocess.Popen], seconds: float = 600) -> list[tuple[int, str, str]]:
    """Wait for all of them: exit code, the rest of standard output, and standard error."""
    try:
        found = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(processes, found, strict=True)]
