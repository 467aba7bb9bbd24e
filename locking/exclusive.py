"""Run a function under a lock: the form in which most code wants one.

    run_exclusively(RedisLock(client, "restock:7"), lambda: restock(7))

    @exclusively(lambda item: RedisLock(client, f"restock:{item}"))
    def restock(item: int) -> None: ...

It works with every lock of this package. To hold several locks at once, acquire them in ascending
order of their names, as all others do: then no two wait for each other (Havender, "Avoiding
deadlock in multitasking systems", 1968).
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from locking.base import AsyncLock, Lease, Lock, LockTimeout, wait_seconds

P = ParamSpec("P")
R = TypeVar("R")

RETRY_INTERVAL = 0.2
"""Seconds between tries without a place in the queue; nobody notices such a pause."""


def run_exclusively(
    lock: Lock, function: Callable[[], R], *, timeout: float | None = None, queue: bool = True
) -> R:
    """Run a function while holding a lock, and return its result.

    Args:
        lock: of any backend, blocking.
        function: takes no arguments.
        timeout: seconds to wait for the lock; None: without an end.
        queue: whether to wait in the lock's queue. Without it, the call tries again every
            `RETRY_INTERVAL` seconds and leaves nothing on the server in between.

    Raises:
        LockTimeout: the lock was not free in time; the function did not run.
        LockLost: the lease ended while the function ran: do not trust its result.
        LockUnavailable: the lock's server does not answer.
        TypeError: the result would run only after the release: a coroutine, task or generator.
    """
    _require_blocking(lock)
    with lock.acquire(timeout) if queue else _try_until(lock, timeout):
        result = function()
        _refuse_to_run_later(result)
        return result


def exclusively(
    lock: Any, *, timeout: float | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that one call at a time runs, over all processes.

    Args:
        lock: a lock, or a function that returns one for the call's arguments, so that calls for
            different items do not exclude each other. An `async def` function needs an asyncio
            lock, any other one a blocking lock.
        timeout: seconds to wait for the lock; None: without an end.

    Raises:
        TypeError: when decorating: the lock is of the other kind, or the function is a generator,
            a property, or a classmethod or staticmethod, which must stand above this decorator.
            When called: as `run_exclusively`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        called = _what_is_called(function)
        asynchronous = inspect.iscoroutinefunction(called)
        require = _require_asyncio if asynchronous else _require_blocking
        is_lock = isinstance(lock, Lock | AsyncLock)
        if is_lock:
            require(lock)

        def chosen(*args: P.args, **kwargs: P.kwargs) -> Any:
            found = lock if is_lock else lock(*args, **kwargs)
            require(found)
            return found

        @functools.wraps(function)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
            held = chosen(*args, **kwargs)
            return run_exclusively(held, lambda: function(*args, **kwargs), timeout=timeout)

        @functools.wraps(function)
        async def awaiting(*args: P.args, **kwargs: P.kwargs) -> Any:
            async with await chosen(*args, **kwargs).acquire(timeout):
                result = await function(*args, **kwargs)  # type: ignore[misc]
                _refuse_to_run_later(result)
                return result

        return awaiting if asynchronous else blocking  # type: ignore[return-value]

    return decorate


def _what_is_called(function: Any) -> Any:
    """Return the function whose kind decides; refuse what this decorator cannot serialize."""
    if isinstance(function, classmethod | staticmethod | property):
        kind = type(function).__name__
        raise TypeError(f"@exclusively goes below @{kind}, next to the function")
    if not callable(function):
        raise TypeError(f"@exclusively decorates a function, not {function!r}")
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    if not inspect.isroutine(called):
        called = type(called).__call__  # an instance of a class with that method
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError(f"{called!r} is a generator: it would run after the lock is released")
    return called


def _require_blocking(lock: object) -> None:
    if not isinstance(lock, Lock):
        raise TypeError(f"a function that is not `async def` needs a blocking lock, not {lock!r}")


def _require_asyncio(lock: object) -> None:
    if not isinstance(lock, AsyncLock):
        raise TypeError(f"an `async def` function needs an asyncio lock, not {lock!r}")


def _refuse_to_run_later(result: object) -> None:
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif inspect.isasyncgen(result):
        pass
    elif inspect.isawaitable(result):
        cancel = getattr(result, "cancel", None)
        if cancel is not None:
            cancel()
    else:
        return
    raise TypeError(f"{result!r} would run only after the lock is released")


def _try_until(lock: Lock, timeout: float | None) -> Lease:
    give_up = time.monotonic() + wait_seconds(timeout)
    while True:
        try:
            return lock.acquire(timeout=0)
        except LockTimeout:
            left = give_up - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(RETRY_INTERVAL, left))
