"""Work under a lock: run a function while holding it, by a call or as a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from locking.backends._waiting import Deadline
from locking.base import AsyncLock, Handle, Lease, Lock
from locking.leases import checked
from locking.terms import SYSTEM_CLOCK, Clock, LockTimeout

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Handle)

RETRY_INTERVAL = 0.2
"""Seconds between tries without queueing; short enough that a person does not notice."""


def run_exclusively(
    lock: Lock,
    function: Callable[[], R],
    *,
    timeout: float | None = None,
    queue: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> R:
    """Run `function` while holding `lock`, of any backend, and return its result.

    Waits for at most `timeout` seconds (None: no limit), then raises `LockTimeout`.  The backend
    queues the caller; without `queue`, the call retries every `RETRY_INTERVAL` seconds instead and
    leaves nothing on the server in between.  Raises `LockLost` if the lease ended while `function`
    ran (do not trust its result then), `LockUnavailable`, and TypeError if the result is a
    coroutine or a generator, which would run only after the release.
    """
    _of_kind(Lock, lock)
    with lock.acquire(timeout) if queue else _try_until(lock, timeout, clock):
        result = function()
        _refuse_to_run_later(result)
        return result


def exclusively(
    lock: Handle | Callable[..., Handle], *, timeout: float | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that only one call runs at a time, across all processes.

    `lock` is a lock, or a function that returns one for the call's arguments, so that calls for
    different items do not exclude each other.  An `async def` function needs an asyncio lock, any
    other a blocking one; a mismatch and a generator raise TypeError, because the lock would be
    released before the body runs.  `timeout` and errors are as in `run_exclusively`.

    >>> @exclusively(lambda item: RedisLock(client, f"restock:{item}"))  # doctest: +SKIP
    ... def restock(item: int) -> None: ...
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        called: Any = function
        if not isinstance(function, functools.partial) and not inspect.isroutine(function):
            called = type(function).__call__  # an instance of a class with that method
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise TypeError(f"{called!r} is a generator: it runs after the lock is released")
        asynchronous = inspect.iscoroutinefunction(called)
        kind: type[Handle] = AsyncLock if asynchronous else Lock

        def chosen(*args: P.args, **kwargs: P.kwargs) -> Any:
            return _of_kind(kind, lock if isinstance(lock, Handle) else lock(*args, **kwargs))

        if isinstance(lock, Handle):
            chosen(*())  # type: ignore[call-arg]  # reports a mismatch at once

        @functools.wraps(function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
            held = chosen(*args, **kwargs)
            return run_exclusively(held, lambda: function(*args, **kwargs), timeout=timeout)

        @functools.wraps(function)
        async def awaiting(*args: P.args, **kwargs: P.kwargs) -> Any:
            async with await chosen(*args, **kwargs).acquire(timeout):
                return await function(*args, **kwargs)  # type: ignore[misc]

        return awaiting if asynchronous else blocking  # type: ignore[return-value]

    return decorate


def _of_kind(kind: type[Handle], lock: H) -> H:
    return checked("the lock", lock, kind, "a blocking lock" if kind is Lock else "an asyncio lock")


def _refuse_to_run_later(result: object) -> None:
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif not inspect.isasyncgen(result):
        return
    raise TypeError(f"{result!r} would run only after the lock is released")


def _try_until(lock: Lock, timeout: float | None, clock: Clock) -> Lease:
    deadline = Deadline(timeout, clock)
    while True:
        try:
            return lock.acquire(timeout=0)
        except LockTimeout:
            left = deadline.left()
            if not left:
                raise
        clock.sleep(min(RETRY_INTERVAL, left))
