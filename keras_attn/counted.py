"""Progress of what goes through items one after the other."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")


def counted(
    items: Iterable[Item], description: str, total: int | None = None, log_seconds: float = 15.0
) -> Iterator[Item]:
    """Go through items and show on standard error how many are done: see `counter`.

    Args:
        items: that each take a while.
        description: what is done with them, "translated" for example.
        total: how many there are, if that is known.
        log_seconds: between two lines where there is no terminal.
    """
    with counter(description, total, log_seconds) as count:
        for item in items:
            yield item
            count(1)


@contextmanager
def counter(
    description: str, total: int | None = None, log_seconds: float = 15.0
) -> Iterator[Callable[[int], None]]:
    """While this lasts, show on standard error how many items are done.

    On a terminal that is a bar, elsewhere a line every `log_seconds`; if it is known how many there
    are, a line at the end says how long they took.

    Args:
        description: what is done with them, "translated" for example.
        total: how many there are, if that is known.
        log_seconds: between two lines where there is no terminal.

    Yields:
        A function to be called with the number of items that were done since the last call.
    """
    console = Console(stderr=True)
    started = logged = time.monotonic()
    of_all = "" if total is None else f" of {total}"
    done = 0

    def show():
        seconds = time.monotonic() - started
        line = f"{description} {done}{of_all} in {seconds:.0f} s"
        console.print(line, soft_wrap=True, highlight=False)

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,  # the last line says the same
    ) as progress:
        task = progress.add_task(description, total=total)

        def count(number: int):
            nonlocal done, logged
            done += number
            progress.advance(task, number)
            if not console.is_terminal and time.monotonic() - logged >= log_seconds:
                logged = time.monotonic()
                show()

        yield count
    if total is not None:
        show()
