"""Run a function under a lock: acquire, call, release, return the result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from locking.base import SYSTEM_CLOCK, Clock, Lease, Lock, LockTimeout

P = ParamSpec("P")
R = TypeVar("R")

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
    ran (do not trust its result then), and `LockUnavailable`.
    """
    with lock.acquire(timeout) if queue else _try_until(lock, timeout, clock):
        return function()


def exclusively(
    lock: Lock | Callable[..., Lock], *, timeout: float | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that only one call runs at a time, across all processes.

    `lock` is a lock, or a function that returns one for the call's arguments, so that calls for
    different items do not exclude each other.  `timeout` and errors are as in `run_exclusively`.

    >>> @exclusively(lambda item: RedisLock(client, f"restock:{item}"))  # doctest: +SKIP
    ... def restock(item: int) -> None: ...
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            chosen = lock if isinstance(lock, Lock) else lock(*args, **kwargs)
            return run_exclusively(chosen, lambda: function(*args, **kwargs), timeout=timeout)

        return wrapper

    return decorate


def _try_until(lock: Lock, timeout: float | None, clock: Clock) -> Lease:
    began = clock.monotonic()
    while True:
        try:
            return lock.acquire(timeout=0)
        except LockTimeout:
            waited = clock.monotonic() - began
            if timeout is not None and waited >= timeout:
                raise
        left = RETRY_INTERVAL if timeout is None else timeout - waited
        clock.sleep(min(RETRY_INTERVAL, left))
