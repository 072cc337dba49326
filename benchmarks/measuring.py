"""How the benchmarks take time and memory."""

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path


def medians(runs: dict, rounds: int) -> dict:
    """Milliseconds of each function, all run in turn, after two calls to warm up."""
    for run in runs.values():
        run()
        run()
    seconds = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: 1e3 * statistics.median(times) for name, times in seconds.items()}


def own_peak_memory() -> float:
    """MB. The kernel's count for the address space, for `getrusage` counts the parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def memory_in_fresh_process(script: str, *arguments: str) -> float:
    """What `script --memory-of ARGUMENTS` prints last: the MB that a step adds to the peak."""
    command = [sys.executable, script, "--memory-of", *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])
