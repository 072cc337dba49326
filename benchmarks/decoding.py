"""How fast searches are, in milliseconds a batch, against other libraries of the same size.

A Transformer of width 256 with 3 + 3 layers and 8,000 words, random weights, float32, writes
exactly 64 tokens for sources of 32 (the end token is forbidden): greedy search with a cache of keys
and values and beam search of width 4, ours and CTranslate2's; greedy search of KerasHub's BART and
of an eager loop in PyTorch. A library that is not installed is left out.

    pip install keras-hub torch ctranslate2
    python benchmarks/decoding.py

Each contender has a process of its own, which waits while another one runs, and each the number of
threads that suits it best: every one is tried with one and with two, ours also as a graph and
compiled, and the fastest of each then run in turn. The table has the medians of those turns. Then
ours alone at growing lengths.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from decoding_process import CONTENDERS, Size
from report import write_result

PROCESS = Path(__file__).with_name("decoding_process.py")
TARGETS = {  # the time of the other over ours, at batch 1 and 32
    "KerasHub": (3.0, 1.5),
    "torch": (1.3, 0.8),
    "CTranslate2": (0.85, 0.6),
}
BEAM_TARGETS = (3.0, 4.5)  # beam 4 over greedy, at most
FORMS = {
    "greedy": ["greedy, graph", "greedy, XLA"],
    "beam 4": ["beam 4, graph", "beam 4, XLA"],
    **{name: [name] for name in list(CONTENDERS)[4:]},
}
"""The contenders, and the forms of each of which the fastest counts."""


@dataclass(frozen=True)
class Task:
    """What is decoded."""

    size: Size
    batch_size: int
    source_length: int
    length: int

    @property
    def arguments(self) -> list[str]:
        return [
            json.dumps(asdict(self.size)),
            *map(str, (self.batch_size, self.source_length, self.length)),
        ]


class Contender:
    """A process that is ready and waits; `milliseconds` lets it run once."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def milliseconds(self) -> float:
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def running(name: str, threads: int, task: Task) -> Iterator[Contender | None]:
    """A contender in a process of its own; None if its library is not installed."""
    command = [sys.executable, str(PROCESS), name, str(threads), *task.arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        # Whatever a library prints while it is built is passed over.
        said = next(line for line in process.stdout if line.startswith(("ready", "absent")))
        yield Contender(process) if said.startswith("ready") else None
        process.stdin.close()


def tried(forms: list[str], threads: tuple[int, ...], task: Task) -> dict[tuple, float]:
    """The median of three runs of every form with every number of threads; none if absent."""
    found = {}
    for form, number in itertools.product(forms, threads):
        with running(form, number, task) as contender:
            if contender is not None:
                times = [contender.milliseconds() for _ in range(3)]
                found[form, number] = statistics.median(times)
    return found


def compare(task: Task, threads: tuple[int, ...], rounds: int) -> dict:
    """Medians of all contenders at their best, in turn, and the ratios that have targets."""
    trials = {name: tried(forms, threads, task) for name, forms in FORMS.items()}
    best = {name: min(found, key=found.get) for name, found in trials.items() if found}
    times = {name: [] for name in best}
    with ExitStack() as stack:
        ready = {name: stack.enter_context(running(*chosen, task)) for name, chosen in best.items()}
        for _ in range(rounds):
            for name, contender in ready.items():
                times[name].append(contender.milliseconds())
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {
        "milliseconds": {name: round(value, 2) for name, value in medians.items()},
        "ratios": ratios(medians, 0 if task.batch_size == 1 else 1),
        "form and threads": {name: list(chosen) for name, chosen in best.items()},
        "tried, milliseconds": {
            f"{form}, {number} threads": round(value, 2)
            for found in trials.values()
            for (form, number), value in found.items()
        },
        "not installed": [name for name in FORMS if name not in best],
    }


def ratios(medians: dict[str, float], column: int) -> dict:
    """The time of the others over that of our search of the same kind, and of our beam."""
    found = {
        f"{name} / greedy": (medians[name] / medians["greedy"], f"at least {targets[column]}")
        for name, targets in TARGETS.items()
        if name in medians
    }
    found["beam 4 / greedy"] = (
        medians["beam 4"] / medians["greedy"],
        f"at most {BEAM_TARGETS[column]}",
    )
    if "CTranslate2, beam 4" in medians:
        ratio = medians["CTranslate2, beam 4"] / medians["beam 4"]
        found["CTranslate2, beam 4 / beam 4"] = (ratio, "none")
    return {
        name: {"ratio": round(ratio, 2), "target": target}
        for name, (ratio, target) in found.items()
    }


def growth(task: Task, lengths: list[int], rounds: int) -> dict:
    """Milliseconds a token of greedy search at growing lengths: the same if time is linear."""
    found = {}
    for length in lengths:
        with running("greedy, graph", 1, replace(task, length=length)) as contender:
            times = [contender.milliseconds() for _ in range(rounds)]
        found[length] = round(statistics.median(times) / length, 3)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--small", action="store_true", help="A quick try; writes no result.")
    given = parser.parse_args()
    size, batches, lengths = Size(), (1, 32), [64, 128, 256, 512]
    if given.small:
        size, batches, lengths = Size(32, 2, 64, 1, 200), (1, 4), [16, 32]
    figures = {}
    for batch_size in batches:
        task = Task(size, batch_size, given.source_length, given.length)
        figures[f"batch {batch_size}"] = row = compare(task, tuple(given.threads), given.rounds)
        print(json.dumps(row, indent=1), flush=True)
    task = Task(size, 1, given.source_length, given.length)
    figures["milliseconds a token by length, greedy as a graph, one thread, batch 1"] = growth(
        task, lengths, given.rounds
    )
    if not given.small:
        write_result("decoding", figures, "ratios are times of the named over ours")


if __name__ == "__main__":
    main()
