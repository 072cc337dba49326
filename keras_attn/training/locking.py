"""One process at a time in a directory."""

import datetime
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import RemotePath

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

LOCK_FILE = "lock.json"


class Lock:
    """The right of one process to write into a directory; every other one is refused.

    A file in the directory names the process that holds the lock, which renews the file while it
    lives. On the machine of that process the kernel tells whether it still runs, so that a lock
    which a killed process left is taken over at once. Elsewhere, as on another machine with the
    same disk, in another container or after a reboot, the file is watched: whoever does not renew
    it any more is dead. Nothing depends on what the clocks of two machines say.

    A file system of `tf.io.gfile` cannot make a file that must not be there yet: of two processes
    that start within the same second the one that wrote last has the lock there, and the other
    finds that out at the next renewal at the latest.

    Args:
        directory: made if it is not there.
        renew_seconds: between two renewals.
        stale_seconds: without a renewal, after which the holder counts as dead.
    """

    def __init__(
        self,
        directory: Path | RemotePath,
        renew_seconds: float = 10.0,
        stale_seconds: float = 60.0,
    ):
        self._directory = directory
        self._path = directory / LOCK_FILE
        self._renew_seconds = renew_seconds
        self._stale_seconds = stale_seconds
        self._mine = _Holder.here()
        self._left = threading.Event()
        self._taken_by: _Holder | None = None

    @contextmanager
    def held(self) -> Iterator["Lock"]:
        """Hold the lock while this lasts.

        Raises:
            UserError: if another process holds it, which the sentence names, or the directory
                cannot be written.
        """
        self._acquire()
        renewing = threading.Thread(target=self._renew, name="lock", daemon=True)
        renewing.start()
        try:
            yield self
        finally:
            self._left.set()
            renewing.join()
            if self._found() == self._mine:
                self._path.unlink(missing_ok=True)

    def require(self) -> None:
        """Raise `UserError` if another process has taken the lock over, for this one was silent."""
        if self._taken_by is not None:
            raise UserError(
                f"{self._directory} was taken over by {self._taken_by.described}, because this "
                f"process had not renewed its lock for {self._stale_seconds:.0f} seconds; it "
                "writes nothing there any more."
            )

    def _acquire(self) -> None:
        with self._alone():
            content = self._content()
            holder = _Holder.read(content)
            if content is None or holder.is_alive is False:
                self._write(self._mine)
                return
        if holder.is_alive:
            raise self._refusal(holder)
        self._watch(content, holder)
        with self._alone():
            if self._content() not in (None, content):
                raise self._refusal(self._found())
            self._write(self._mine)
        time.sleep(min(1.0, self._renew_seconds))  # another may have waited for the same lock
        if self._found() != self._mine:
            raise self._refusal(self._found())

    def _watch(self, content: bytes, holder: "_Holder") -> None:
        """Return when the lock is free or its holder is dead; raise when it is renewed."""
        print(
            f"{self._directory} is locked by {holder.described}: looking for at most "
            f"{self._stale_seconds:.0f} seconds whether that still runs.",
            file=sys.stderr,
        )
        since = time.monotonic()
        while time.monotonic() - since < self._stale_seconds:
            time.sleep(self._renew_seconds / 10)
            found = self._content()
            if found is None:
                return
            if found != content:
                raise self._refusal(_Holder.read(found))

    def _renew(self) -> None:
        renewals = 0
        while not self._left.wait(self._renew_seconds):
            renewals += 1
            with suppress(OSError, UserError):  # a full disk for example; the next may succeed
                found = self._found()
                if found and found.token not in ("", self._mine.token):
                    self._taken_by = found
                    return
                self._write(self._mine, renewals)

    def _refusal(self, holder: "_Holder | None") -> UserError:
        described = holder.described if holder else "another process"
        return UserError(
            f"{self._directory} is in use by {described}: wait until it has ended, stop it, or "
            "choose another directory."
        )

    def _found(self) -> "_Holder | None":
        content = self._content()
        return None if content is None else _Holder.read(content)

    def _content(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, holder: "_Holder", renewals: int = 0) -> None:
        with written_whole(self._path) as file:
            file.write(json.dumps({**asdict(holder), "renewals": renewals}).encode())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While this lasts no other process of this machine looks at the lock or takes it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UserError(
                f"Cannot write {self._path}: {self._directory} is not a directory."
            ) from error
        except OSError as error:
            raise UserError(f"Cannot write {self._path}: {error.strerror}.") from error
        if fcntl is None or isinstance(self._directory, RemotePath):
            yield
            return
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network file systems have no such thing
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


@dataclass(frozen=True)
class _Holder:
    """A process, so that no other can be taken for it.

    Attributes:
        process: its number.
        host: the name of its machine.
        since: when it took the lock, for a person.
        machine: says where the number of the process has its meaning: host, boot and container.
        started: when the process began, in the clock of the machine; empty if that is unknown.
        token: of this one lock.
    """

    process: int = 0
    host: str = ""
    since: str = ""
    machine: str = ""
    started: str = ""
    token: str = ""

    @classmethod
    def here(cls) -> "_Holder":
        return cls(
            os.getpid(),
            socket.gethostname(),
            datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
            _machine(),
            _started(os.getpid()),
            uuid.uuid4().hex,
        )

    @classmethod
    def read(cls, content: bytes | None) -> "_Holder":
        """Of the file's content; of one that cannot be read, a process that is not known."""
        try:
            found = json.loads(content)
            return cls(**{field.name: found[field.name] for field in fields(cls)})
        except (TypeError, ValueError, KeyError):
            return cls()

    @property
    def described(self) -> str:
        if not self.process:
            return "another process"
        return f"process {self.process} on {self.host} since {self.since}"

    @property
    def is_alive(self) -> bool | None:
        """Whether the process runs; None if that cannot be told from here."""
        if not self.machine or self.machine != _machine():
            return None
        return self.started == _started(self.process)


def _machine() -> str:
    """Empty where the kernel does not tell enough to know a process again."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process of this machine began; empty if it does not run, or has ended unmourned."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return ""
    state, *numbers = status.rpartition(")")[2].split()  # a name before it may hold anything
    return "" if state in "ZX" else numbers[18]
