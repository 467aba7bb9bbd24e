"""What tests of locks need: waiting for a condition, processes that hold locks, a bad network."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis.asyncio
from redis import Redis

from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import Script
from locking.base import Lock
from locking.leases import LeaseState
from locking.redis_client import connect_async
from locking.renewal import Renewer
from locking.tests.servers import RedisLike

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


def run(
    server: RedisLike,
    scenario: Callable[[Any], Coroutine[Any, Any, Any]],
    *,
    flush: bool = False,
    **options: Any,
) -> Any:
    """Run the scenario in a loop, with an asyncio client of the server."""

    async def main() -> Any:
        client = connect_async(server.endpoint, **options)
        assert isinstance(client, redis.asyncio.Redis)
        async with client:
            if flush:
                await client.flushall()
            return await asyncio.wait_for(scenario(client), 60)

    return asyncio.run(main())


def lock_on(
    client: Redis, name: str = "phone", *, renewer: Renewer | None = None, **options: Any
) -> RedisLock:
    lock = RedisLock(client, name, **options)
    lock.remote.renewer = renewer or lock.remote.renewer
    return lock


def fence(lease: LeaseState) -> int:
    assert lease.token is not None
    return lease.token


def ask(lock: RedisLock, script: Script, *args: str) -> Any:
    """Run one of the lock's scripts; return the answer."""
    return lock.remote.read(script, lambda answer: answer, *args)


class Around:
    """A transport that does what another does; subclasses change one thing."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class Interrupted(BaseException):
    pass


def before_answer(lock: RedisLock, call: Callable[[], object], *, sent: bool = True) -> None:
    """Have something called between the lock's next command and its answer, or instead of both."""
    transport = lock.remote.transport

    class Overtaken(Around):
        def run(self, *args: Any) -> Any:
            answer = transport.run(*args) if sent else None
            lock.remote.transport = transport
            call()
            return answer

    lock.remote.transport = Overtaken(transport)


def interrupt_next(lock: RedisLock, error: BaseException, *, sent: bool) -> None:
    """Let the lock's next command fail, after it was sent or before."""

    def fail() -> None:
        raise error

    before_answer(lock, fail, sent=sent)


class TransportWithPop(Around):
    """A transport whose blocking pop is another."""

    def __init__(self, transport: Any, pop: Callable[[str, float], bytes | None]) -> None:
        super().__init__(transport)
        self._pop = pop

    def pop(self, key: str, seconds: float, patience: float | None = None) -> bytes | None:
        return self._pop(key, seconds)


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
