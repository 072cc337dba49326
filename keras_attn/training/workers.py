"""The processes that train together, and what they agree on."""

import os
import re
import socket
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.reduction import sum_over_replicas

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_SECONDS_TO_ANSWER = 2.0
# A worker that still lives is missed 10 seconds after it stops; until all have found out which one
# is dead, none should look dead.
_SECONDS_OF_GRACE = 12.0
# TensorFlow tells of a dead worker within these, or may never do so.
_SECONDS_OF_PATIENCE = 15.0
# Until all know why they end, none should.
_SECONDS_TO_READ = 1.0
_LONGEST_VALUE = 80  # characters of what differs
_DIFFERENCES_NAMED = 4
_LEAST_WIDTH = 4  # of what is gathered, so that nearly all of it has one shape and is traced once

# A worker that compares variables must meet another one that compares settings already, so that
# there is one function of a strategy, and in it one collective of each kind and shape.
_sums: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class Workers:
    """The processes of a strategy; without `multi_worker` there is one, the chief.

    All of them must call `any`, `of_chief`, `first_not_zero` and `require_same` in the same order,
    for each waits for the others.

    Args:
        strategy: of `make_strategy`.

    Attributes:
        number: of processes.
        index: of this one.
        is_chief: whether this one is the first, which writes checkpoints and shows progress.

    Example:
        >>> from keras_attn.training import Workers, make_strategy
        >>> workers = Workers(make_strategy("none"))
        >>> workers.number, workers.is_chief
        (1, True)
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._names = _names(strategy)
        self.number = len(self._names)
        self.index = 0
        if self.number > 1:
            resolver = strategy.cluster_resolver
            self.index = list(self._names).index(f"{resolver.task_type} {resolver.task_id}")
        self.is_chief = self.index == 0
        self._waiting_since: float | None = None

    def any(self, flag: bool) -> bool:
        """Whether the flag is True in one of the processes."""
        if self.number == 1:
            return flag
        return self._sum([np.int32(flag)], of_all=True)[0] > 0

    def which(self, flags: list[bool]) -> list[bool]:
        """Of each flag, whether it is True in one of the processes."""
        if self.number == 1:
            return flags
        return [bool(found) for found in self._gathered(np.array(flags, np.int64)).any(axis=0)]

    def require_same(self, what: str, values: Mapping[str, object]) -> None:
        """Raise the same `UserError` in every process unless all have the same values.

        Args:
            what: they are the values of, such as `settings`.
            values: by name; two are the same if their texts are.
        """
        if self.number == 1:
            return
        text = "\n".join([what, *(f"{name}\t{_short(values[name])}" for name in sorted(values))])
        digests = self._gathered(np.array([zlib.crc32(text.encode())]))[:, 0]
        if len(set(digests)) == 1:
            return
        texts = self._texts(text)
        time.sleep(_SECONDS_TO_READ)
        raise UserError(_difference(texts))

    def of_chief(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """The values of the chief, in every process."""
        if self.number == 1:
            return values
        return self._sum(values, of_all=False)

    def first_not_zero(self, values: np.ndarray) -> np.ndarray:
        """The values (n,) of the first process that has others than 0, in every process."""
        if self.number == 1:
            return values
        of_all = self._gathered(values)
        return of_all[np.argmax(of_all.any(axis=1))]

    def clock(self, own: Callable[[], float] = time.monotonic) -> float:
        """The chief's clock in seconds, in every process; `own` is that of this process."""
        return float(self.of_chief([np.float64(own())])[0])

    def _gathered(self, values: np.ndarray) -> np.ndarray:
        """The integers (n,) of every process: (number, n)."""
        width = max(len(values), _LEAST_WIDTH)
        mine = np.zeros((self.number, width), np.int64)
        mine[self.index, : len(values)] = values
        replicas = self._strategy.num_replicas_in_sync // self.number  # each adds them once
        return self._sum([mine], of_all=True)[0][:, : len(values)] // replicas

    def _texts(self, text: str) -> list[str]:
        """The text of every process."""
        content = np.frombuffer(text.encode(), np.uint8)
        sizes = self._gathered(np.array([len(content)]))[:, 0]
        of_all = self._gathered(np.pad(content, (0, max(sizes) - len(content))))
        return [
            bytes(row[:size].tolist()).decode() for row, size in zip(of_all, sizes, strict=True)
        ]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Turns TensorFlow's errors about a worker that is lost into a sentence that names it.

        Raises:
            UserError: within half a minute after another worker has died.
        """
        if self.number == 1:
            yield
            return
        left = threading.Event()
        threading.Thread(target=self._watch, args=(left,), daemon=True).start()
        try:
            yield
        except tf.errors.OpError as error:
            if not (isinstance(error, _LOST) or "Collective ops is aborted" in str(error)):
                raise
            sentence = self._lost(self._missing(str(error)))
            if self.number > 2:
                time.sleep(_SECONDS_OF_GRACE)
            raise UserError(sentence) from error
        finally:
            left.set()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for the other workers."""
        self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waiting_since = None

    def _watch(self, left: threading.Event) -> None:
        """End this process if it waits for a worker that is gone and TensorFlow does not tell.

        Nothing gentler reaches a thread that waits inside of TensorFlow.
        """
        while not left.wait(1.0):
            since = self._waiting_since
            if since is None or time.monotonic() - since < _SECONDS_OF_PATIENCE:
                continue
            silent = [name for name in self._others() if not _answers(self._names[name])]
            if silent and self._waiting_since == since:
                print(f"Error: {self._lost(silent)}", file=sys.stderr, flush=True)
                os._exit(2)

    def _lost(self, names: list[str]) -> str:
        places = " and ".join(f"{name} ({self._names[name]})" for name in names)
        return (
            f"Lost {places}, without which the training cannot go on: see what is written there, "
            "then start all workers again; they go on from the last checkpoint."
        )

    def _others(self) -> list[str]:
        return [name for index, name in enumerate(self._names) if index != self.index]

    def _missing(self, message: str) -> list[str]:
        """The workers that an error speaks of, those that do not answer if there are any."""
        message = re.sub(r"reported from /job:\S+", "", message)
        places = re.findall(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)", message)
        others = self._others()
        named = [name for name in others if tuple(name.split()) in places] or others
        return [name for name in named if not _answers(self._names[name])] or named

    def _sum(self, values: list[np.ndarray], of_all: bool) -> list[np.ndarray]:
        """The sums over the replicas of all processes, or the values of the first one."""
        with self.waiting():
            function = _sums.get(self._strategy) or _sums.setdefault(
                self._strategy, _sum_function(self._strategy)
            )
            return [value.numpy() for value in function(list(map(tf.constant, values)), of_all)]


def _sum_function(strategy: tf.distribute.Strategy):
    """`summed(values, of_all)`, see `Workers._sum`."""

    @tf.function
    def summed(values, of_all):
        def of_replica(values):
            replica = tf.distribute.get_replica_context()
            counts = of_all or tf.equal(replica.replica_id_in_sync_group, 0)
            kept = [tf.where(counts, value, tf.zeros_like(value)) for value in values]
            return sum_over_replicas(kept)

        sums = strategy.run(of_replica, args=(values,))
        return [strategy.experimental_local_results(value)[0] for value in sums]

    return summed


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[:_LONGEST_VALUE]}... ({zlib.crc32(text.encode()):08x})"


def _difference(texts: list[str]) -> str:
    """What differs between the first process and the first that is unlike it."""
    other = next(index for index, text in enumerate(texts) if text != texts[0])
    (what, *mine), (what_other, *theirs) = texts[0].split("\n"), texts[other].split("\n")
    if what != what_other:
        return (
            f"The workers do not run the same program: where worker 0 goes on with its {what}, "
            f"worker {other} does with its {what_other}. Start all of them with the same program, "
            "model, settings and data."
        )
    mine, theirs = (dict(line.split("\t", 1) for line in lines) for lines in (mine, theirs))
    missing = "(not there)"
    differing = [
        f"{name} is {mine.get(name, missing)} in worker 0 and {theirs.get(name, missing)} in "
        f"worker {other}"
        for name in sorted({*mine, *theirs})
        if mine.get(name) != theirs.get(name)
    ]
    more = len(differing) - _DIFFERENCES_NAMED
    named = "; ".join(differing[:_DIFFERENCES_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return f"The workers differ in {what}: {named}. Start all of them with the same."


def _names(strategy: tf.distribute.Strategy) -> dict[str, str]:
    """The workers by name with their addresses, the chief first."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return {"worker 0": ""}
    return names_of_cluster(strategy.cluster_resolver.cluster_spec().as_dict())


def names_of_cluster(cluster: Mapping[str, list[str]]) -> dict[str, str]:
    """The workers of a cluster by name with their addresses, the chief first."""
    return {
        f"{job} {index}": address
        for job in ("chief", "worker")
        for index, address in enumerate(cluster.get(job, []))
    }


def _answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
    except OSError:
        return False
    return True
