"""The production Redis lock for asyncio: the same steps, scripts, keys and guarantees.

An `AsyncRedisLock` and a `RedisLock` of the same name exclude each other and share one queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import weakref
from collections.abc import Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from locking.backends.redis_core import RedisHandle
from locking.backends.redis_lease import RedisLeaseState, Remote
from locking.backends.redis_protocol import Steps
from locking.backends.redis_transport_async import async_transport_for
from locking.base import AsyncLease, AsyncLock, acquirer_in
from locking.leases import time_limit
from locking.renewal import MAX_SLEEP

T = TypeVar("T")

logger = logging.getLogger(__name__)

_BACKGROUND: set[asyncio.Task[Any]] = set()
"""What goes on without its caller; asyncio itself keeps tasks weakly."""


class AsyncRemote(Remote):
    """A lock on its server, for asyncio."""

    __slots__ = ()

    transport_of = staticmethod(async_transport_for)

    def sleep(self, seconds: float) -> Any:
        """See `Remote.sleep`."""
        return asyncio.sleep(seconds)

    async def perform(self, steps: Steps[T], step: Any = None) -> T:
        """Execute the steps, from `step` on if they have begun; return their result.

        What they still do after a cancellation is not interrupted by another one.
        """
        try:
            step = step or next(steps)
            while True:
                try:
                    result = await step[0](*step[1])
                except asyncio.CancelledError as cancelled:
                    step = steps.throw(cancelled)
                    break
                except Exception as problem:  # noqa: BLE001 - the steps decide what to do
                    step = steps.throw(problem)
                else:
                    step = steps.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        return await asyncio.shield(in_background(self.perform(steps, step)))


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run something that nobody may wait for."""
    task = asyncio.create_task(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task


class AsyncRedisLease(RedisLeaseState, AsyncLease):
    """A granted `AsyncRedisLock`; the asyncio version of `RedisLease`."""

    __slots__ = ("_ended", "_renewal")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._ended = asyncio.Event()
        self._renewal: asyncio.TimerHandle | None = None

    if TYPE_CHECKING:
        release, extend = AsyncLease.release, AsyncLease.extend

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for the loss or the release; return whether lost."""
        give_up = inf if timeout is None else self.clock.monotonic() + timeout
        while not self._is_lost() and not self._released:
            left = min(give_up - self.clock.monotonic(), self.remaining())
            if self.clock.monotonic() >= give_up:
                return False
            with contextlib.suppress(TimeoutError):  # the lease may have been extended
                await asyncio.wait_for(self._ended.wait(), max(0.0, left))
        return self._is_lost()

    def mark_lost(self, reason: str) -> None:
        """Mark the lease as lost, once."""
        super().mark_lost(reason)
        self._ended.set()

    def _end(self) -> None:
        super()._end()
        self._ended.set()

    def keep(self, due: float) -> None:
        """See `RedisLease.keep`."""
        self.drop()
        pause = max(0.0, due - self.clock.monotonic())
        # A weak reference, so that a lease that its owner dropped can expire.
        loop = asyncio.get_running_loop()
        self._renewal = loop.call_later(pause, _renew, weakref.ref(self))

    def drop(self) -> None:
        """See `RedisLease.drop`."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _acquirer_ended(self) -> bool:
        task = self.acquirer()
        return task is None or bool(task.done())


class AsyncRedisLock(RedisHandle, AsyncLock):
    """A named lock for asyncio on Redis, Valkey, Sentinel or a cluster; see `RedisLock`.

    `client` is an asyncio client of redis-py or valkey-py, or a URL.  A task takes the place of a
    thread; all tasks of a loop share one connection for commands and one for waiting.

    >>> async with lock as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    >>> async with await lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    """

    remote: AsyncRemote
    remote_class = AsyncRemote
    lease_class = AsyncRedisLease

    if TYPE_CHECKING:
        owned, owner, waiters = AsyncLock.owned, AsyncLock.owner, AsyncLock.waiters
        force_release = AsyncLock.force_release

        @property
        def lease(self) -> AsyncRedisLease:
            """See `AsyncLock.lease`."""

    async def acquire(
        self, timeout: float | None = None, *, blocking: bool = True
    ) -> AsyncRedisLease:
        """Wait for the lock for at most `timeout` seconds; None: the handle's, 0: try once."""
        timeout = time_limit(timeout, blocking, self.timeout)
        task = asyncio.current_task()
        acquirer = acquirer_in(sys._getframe().f_code)
        return await self.remote.perform(self._acquiring(task, timeout, acquirer=acquirer))


def _renew(reference: weakref.ref[AsyncRedisLease]) -> None:
    if (lease := reference()) is not None:
        in_background(_renew_and_go_on(lease))


async def _renew_and_go_on(lease: AsyncRedisLease) -> None:
    try:
        due = (await lease._remote.perform(lease.renewing()))[1]
    except Exception:
        # An unforeseen error must not stop the renewal.
        logger.exception("a lease was not renewed; trying again in %s s", MAX_SLEEP)
        due = lease.clock.monotonic() + MAX_SLEEP
    if due < inf and not lease.released:
        lease.keep(due)
