"""Files written beside the training."""

import threading
import time
from collections.abc import Callable


class BackgroundWriter:
    """Writes in a thread of its own, in the order it was asked to, one at a time.

    The thread keeps the process alive until a write that was begun is done.

    Attributes:
        longest: seconds of the longest write so far.
        failed: whether the last write failed.

    Example:
        >>> writer = BackgroundWriter()
        >>> writer.submit(lambda: print("written"))
        >>> writer.wait()
        written
    """

    def __init__(self):
        self.longest = 0.0
        self.failed = False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Begin a write when the one before is done.

        Raises:
            UserError: if the one before failed.
        """
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(write,), name="writer")
        self._thread.start()

    def check(self) -> None:
        """Raise what the last write raised, if it did and nobody has been told of it."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Return when nothing is being written any more; raises as `check` does."""
        if self._thread is not None:
            self._thread.join()
        self.check()

    def _run(self, write: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            write()
            self.failed = False
        except BaseException as error:  # raised again by `check`, in the thread that trains
            self._error, self.failed = error, True
        self.longest = max(self.longest, time.monotonic() - started)
