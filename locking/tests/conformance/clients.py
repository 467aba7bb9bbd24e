"""Processes that use a lock on command, and can be killed, stopped or interrupted meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Self

import locking
from locking import LockTimeout
from locking.base import Lease, Lock
from locking.tests.conformance.backends import ALL, Backend
from locking.tests.helpers import PROCESSES, import_before_forking

import_before_forking(__name__, *{kind.lock_class.partition(":")[0] for kind in ALL})

ANSWER_TIMEOUT = 40.0  # s; for an answer that a test is sure to get


class Cancelled(Exception):
    """The client was interrupted while it executed a command."""


class Client:
    """A process with one lock and at most one lease of it; commands are the methods of `_Worker`.

    `call` waits for the answer and raises what the command raised; `begin` returns as soon as the
    process is about to execute it, `answer` collects.
    """

    def __init__(
        self, kind: type[Backend], endpoints: Sequence[Any], name: str, **options: Any
    ) -> None:
        self.pipe, theirs = PROCESSES.Pipe()
        arguments = (theirs, kind, endpoints, name, options)
        self.process = PROCESSES.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        assert self._receive(ANSWER_TIMEOUT) == ("begun",)

    def begin(self, command: str, *arguments: Any) -> None:
        self.pipe.send((command, *arguments))
        assert self._receive(ANSWER_TIMEOUT) == ("begun",)

    def call(self, command: str, *arguments: Any) -> Any:
        self.begin(command, *arguments)
        return self.answer()

    def answer(self, within: float = ANSWER_TIMEOUT) -> Any:
        kind, value, detail = self._receive(within)
        if kind == "done":
            return value
        if value == "KeyboardInterrupt":
            raise Cancelled
        raise getattr(locking, value, AssertionError)(detail)

    def _receive(self, within: float) -> Any:
        if not self.pipe.poll(within):
            raise AssertionError(f"no answer from the process within {within} s")
        return self.pipe.recv()

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End the process as the kernel would on lack of memory, and wait until it is gone."""
        with suppress(ProcessLookupError):  # it may have ended by itself a moment ago
            self.signal(signal.SIGKILL)
        self.process.join(ANSWER_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.process.is_alive():
            self.kill()
        self.pipe.close()


class ReadCount(NamedTuple):
    """What a client has read that begins to count, and whether another one was about to write."""

    value: int
    intruded: bool


class _Worker:
    """What runs in the process."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.lease: Lease | None = None

    def acquire(self, timeout: float | None = None) -> int | None:
        self.lease = self.lock.acquire(timeout)
        return self.lease.token

    def try_for(self, timeout: float) -> tuple[bool, float]:
        """Acquire; whether that succeeded, and how long it took."""
        began = time.monotonic()
        try:
            self.lease = self.lock.acquire(timeout)
        except LockTimeout:
            return False, time.monotonic() - began
        return True, time.monotonic() - began

    def release(self) -> None:
        assert self.lease is not None
        self.lease.release()

    def check(self) -> None:
        assert self.lease is not None
        self.lease.check()

    def wait_lost(self, timeout: float) -> bool:
        assert self.lease is not None
        return self.lease.lost.wait(timeout)

    def count(self, times: int, counter: str) -> tuple[int, list[int | None]]:
        """Count in a file that nothing protects but the lock; how often somebody else was there."""
        intruders, tokens = 0, []
        for _ in range(times):
            lease = self.lock.acquire(ANSWER_TIMEOUT)
            read = self.read_count(counter)
            time.sleep(0)
            self.write_count(counter, read.value + 1)
            intruders += read.intruded
            tokens.append(lease.token)
            lease.release()
        return intruders, tokens

    def read_count(self, counter: str) -> ReadCount:
        """Begin to count."""
        try:
            Path(f"{counter}.inside").touch(exist_ok=False)
        except FileExistsError:
            intruded = True
        else:
            intruded = False
        return ReadCount(int(Path(counter).read_text() or 0), intruded)

    def write_count(self, counter: str, value: int) -> None:
        """End to count."""
        Path(counter).write_text(str(value))
        Path(f"{counter}.inside").unlink(missing_ok=True)


def _serve(
    pipe: Connection,
    kind: type[Backend],
    endpoints: Sequence[Any],
    name: str,
    options: dict[str, Any],
) -> None:
    worker = _Worker(kind(endpoints).lock(name, **options))
    pipe.send(("begun",))
    with suppress(EOFError):  # the test has ended
        while True:
            command, *arguments = pipe.recv()
            pipe.send(_outcome(pipe, getattr(worker, command), arguments))


def _outcome(
    pipe: Connection, command: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[str, Any, str]:
    try:
        pipe.send(("begun",))  # from here on the test may interrupt us
        return "done", command(*arguments), ""
    except BaseException as error:  # noqa: BLE001 - the test's process is to see all of them
        return "failed", type(error).__name__, str(error)
