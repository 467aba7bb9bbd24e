"""What tests of locks need: waiting for a condition, processes that hold locks, a bad network."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from locking.base import LeaseState, Lock
from locking.redis_client import connect_async

# A child of the test's process would inherit its connections and locks. These are forked from a
# process that has imported what they need, but has no connection and runs no thread.
PROCESSES = multiprocessing.get_context("forkserver")
_imported = ["pytest"]


def import_before_forking(*modules: str) -> None:
    """Have modules imported once for all processes; what cannot be imported is passed over."""
    _imported.extend(modules)
    PROCESSES.set_forkserver_preload(_imported)


def eventually(condition: Callable[[], Any], within: float = 60.0) -> Any:
    """Wait until the condition is true; fail the test if it does not become so."""
    give_up = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < give_up, f"not within {within} s: {condition}"
        time.sleep(0.005)
    return value


def until_renewed(lease: LeaseState) -> None:
    """Wait until the end of a lease has moved away; fail the test if the lease is lost."""
    left = lease.remaining()

    def has_more_left() -> bool:
        nonlocal left
        before, left = left, lease.remaining()
        assert left > 0, "the lease has ended"
        return left > before

    eventually(has_more_left)


async def until_waiting(lock: Any, count: int = 1) -> None:
    """Wait until so many clients wait for an asyncio lock."""
    async with asyncio.timeout(30):
        while await lock.waiters() != count:
            await asyncio.sleep(0.005)


class Task(threading.Thread):
    """A thread whose result, or exception, comes out of `result()`."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(daemon=True)
        self._call = lambda: function(*args, **kwargs)
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:  # noqa: BLE001 - it is raised again in `result`
            self._error = error

    def result(self, within: float = 20.0) -> Any:
        self.join(within)
        assert not self.is_alive(), f"not finished within {within} s"
        if self._error is not None:
            raise self._error
        return self._value


def most_inside(locks: Sequence[Lock], rounds: int) -> int:
    """Have a thread for each handle enter so often; return how many were inside at once."""
    inside: list[int] = []
    seen: list[int] = []

    def enter(lock: Lock) -> None:
        for _ in range(rounds):
            with lock.acquire(timeout=30):
                inside.append(1)
                seen.append(len(inside))
                time.sleep(0)
                inside.pop()

    for task in [Task(enter, lock) for lock in locks]:
        task.result(within=60)
    assert len(seen) == len(locks) * rounds
    return max(seen)


def in_loop(url: str, scenario: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Run the scenario in a loop, with an asyncio client of the server."""

    async def main() -> Any:
        client = connect_async(url)
        try:
            return await asyncio.wait_for(scenario(client), 60)
        finally:
            await client.aclose()

    return asyncio.run(main())


def fence(lease: LeaseState) -> int:
    assert lease.token is not None
    return lease.token


class Around:
    """An object that does what another does, but for some methods."""

    def __init__(self, inner: Any, **methods: Callable[..., Any]) -> None:
        self.inner = inner
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Interrupted(BaseException):
    pass


@contextmanager
def process(function: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """Run the function in another process; kill it at the end if it still runs."""
    child = PROCESSES.Process(target=function, args=args, daemon=True)
    child.start()
    try:
        yield child
    finally:
        child.kill()
        child.join()
        child.close()
