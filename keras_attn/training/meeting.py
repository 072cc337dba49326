"""Workers find one another before TensorFlow starts, which would wait for a missing one in silence.

Each listens at its own address until it has told all others what cluster it knows, and has been
told the same by all. TensorFlow takes the address afterwards.
"""

import errno
import json
import os
import socket
import threading
import time

from keras_attn.errors import UserError

SECONDS_VARIABLE = "KERAS_ATTN_WORKER_SECONDS"
_SECONDS_TO_WAIT = 30.0
_SECONDS_OF_TALK = 2.0
_SECONDS_BETWEEN = 0.1
_LONGEST_HELLO = 1 << 20


def meet(names: dict[str, str], name: str) -> None:
    """Wait until all workers of a cluster are there and know the same cluster.

    Args:
        names: of the workers, with their addresses `host:port`.
        name: of this one.

    Raises:
        UserError: if the address of this worker is taken; if another one is not there after 30
            seconds, or as many as the environment variable KERAS_ATTN_WORKER_SECONDS says; if one
            was started with another list of workers.
    """
    address = names[name]
    port = int(address.rsplit(":", 1)[1])
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "another process listens there" if taken else error.strerror
        raise UserError(
            f"{name} cannot listen at {address}: {why}. Give every worker an index of its own in "
            "TF_CONFIG, start each once, and wait until the processes of before have ended."
        ) from error
    with server:
        if len(names) > 1:
            _Meeting(names, name, server).run(_seconds_to_wait())


def _seconds_to_wait() -> float:
    text = os.environ.get(SECONDS_VARIABLE, str(_SECONDS_TO_WAIT))
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"{SECONDS_VARIABLE} must be a number. Received: {text}.") from error


class _Meeting:
    """What this worker has said to the others and heard from them."""

    def __init__(self, names: dict[str, str], name: str, server: socket.socket):
        self._names = names
        self._name = name
        self._server = server
        self._hello = json.dumps({"name": name, "cluster": names}).encode() + b"\n"
        self._others = [other for other in names if other != name]
        self._heard: set[str] = set()  # who answered
        self._told: set[str] = set()  # who asked
        self._different: dict[str, dict] = {}  # clusters by the name of who knows them
        self._is_over = threading.Event()

    def run(self, seconds: float) -> None:
        listening = threading.Thread(target=self._listen, daemon=True)
        listening.start()
        try:
            self._talk(seconds)
        finally:
            self._is_over.set()
            listening.join()  # a socket that a thread waits at keeps its address

    def _talk(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._is_complete() and not self._different and time.monotonic() < deadline:
            for other in set(self._others) - self._heard:
                self._ask(other)
            time.sleep(_SECONDS_BETWEEN)
        if self._different:
            time.sleep(_SECONDS_OF_TALK)  # in which the others learn of it too
            raise UserError(self._difference())
        if not self._is_complete():
            raise UserError(self._missing(seconds))

    def _is_complete(self) -> bool:
        return {*self._others} <= self._heard & self._told

    def _ask(self, other: str) -> None:
        host, port = self._names[other].rsplit(":", 1)
        try:
            place = host.strip("[]"), int(port)
            with socket.create_connection(place, _SECONDS_OF_TALK) as connection:
                connection.sendall(self._hello)
                if self._read(connection, expected=other):
                    self._heard.add(other)
        except OSError:
            pass  # not there yet

    def _listen(self) -> None:
        self._server.settimeout(_SECONDS_BETWEEN)
        while not self._is_over.is_set():
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_SECONDS_OF_TALK)
                name = self._read(connection)
                connection.sendall(self._hello)
                if name:
                    self._told.add(name)
        except OSError:
            pass  # it asks again

    def _read(self, connection: socket.socket, expected: str | None = None) -> str:
        """The name of the worker that speaks; empty if it is none, or not the one expected."""
        with connection.makefile("rb") as file:
            line = file.readline(_LONGEST_HELLO)
        try:
            hello = json.loads(line)
            name, cluster = hello["name"], dict(hello["cluster"])
        except (ValueError, KeyError, TypeError):
            return ""
        if cluster != self._names:
            self._different[str(name)] = cluster
        return name if expected in (None, name) else ""

    def _difference(self) -> str:
        name, cluster = next(iter(self._different.items()))
        return (
            f"The workers were started with different clusters in TF_CONFIG: {self._name} has "
            f"{_listed(self._names)}, and {name} has {_listed(cluster)}. Give all of them the same "
            "list in the same order."
        )

    def _missing(self, seconds: float) -> str:
        silent = [other for other in self._others if other not in self._heard & self._told]
        places = " and ".join(f"{other} ({self._names[other]})" for other in silent)
        do, verb = ("does", "it") if len(silent) == 1 else ("do", "them")
        return (
            f"{places[0].upper()}{places[1:]} {do} not answer after {seconds:g} seconds, and "
            f"{self._name} cannot begin without {verb}: start all workers, each with its own index "
            f"in TF_CONFIG; {SECONDS_VARIABLE} is how many seconds they wait for one another."
        )


def _listed(cluster: dict[str, str]) -> str:
    return ", ".join(f"{name} {address}" for name, address in cluster.items())
