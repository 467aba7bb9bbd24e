"""The production Redis lock for asyncio: the same scripts, keys and guarantees.

An `AsyncRedisLock` and a `RedisLock` of the same name exclude each other and share one queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from math import inf
from typing import TYPE_CHECKING, Any, Self, Unpack

from redis.exceptions import RedisError

from locking.backends.redis_core import (
    RedisHandle,
    RedisLeaseState,
    RedisLockSettings,
    Remote,
    ms,
    unavailable,
)
from locking.backends.redis_protocol import (
    Grant,
    LateGrant,
    Pause,
    Script,
)
from locking.backends.redis_transport import NO_ANSWER
from locking.backends.redis_transport_async import async_transport_for
from locking.base import AsyncLock, LockError, LockTimeout, LockUnavailable, time_limit

_HELD: weakref.WeakKeyDictionary[Any, weakref.WeakSet[AsyncRedisLease]] = (
    weakref.WeakKeyDictionary()
)
"""The leases of each task.  Loops in several threads run at once, so a task sees its own only."""


class AsyncRemote(Remote):
    """A lock on its server, for asyncio."""

    __slots__ = ()

    async def run(self, script: Script, *args: str, give_up: float | None = None) -> Any:
        """See `BlockingRemote.run`."""
        keys = self.keys.all
        try:
            try:
                return await self.transport.run(script, keys, args, self.patience(give_up))
            except NO_ANSWER:
                if not self.may_repeat(give_up):
                    raise
                return await self.transport.run(script, keys, args, self.patience(give_up))
        except RedisError as error:
            unavailable(self.name, error)

    async def pop(self, wake_list: str, seconds: float, give_up: float | None) -> bytes | None:
        """See `BlockingRemote.pop`."""
        patience = self.patience(give_up, seconds)
        try:
            popped: bytes | None = await self.transport.pop(wake_list, seconds, patience)
        except RedisError as error:
            self.after_pop(error, give_up)
            return None
        return popped


class AsyncRedisLease(RedisLeaseState):
    """A granted `AsyncRedisLock`; the asyncio version of `RedisLease`."""

    __slots__ = ("_ended", "_renewal_task")

    def __init__(self, lock: AsyncRedisLock, holder: str) -> None:
        super().__init__(lock, holder, asyncio.current_task())
        self._ended = asyncio.Event()
        self._renewal_task: asyncio.Task[None] | None = None

    def start_renewing(self) -> None:
        """Start the renewal task, or start it again for another length of the lease."""
        self.stop_renewing()
        # The task has only a weak reference, so that a lease that its owner dropped can expire.
        self._renewal_task = asyncio.create_task(_renew_until_lost(weakref.ref(self)))

    async def release(self) -> None:
        """Release the lock, at the last of as many releases as there were acquires.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server does not
        answer; call `release` again in that case.  A release that is cancelled goes on in the
        background.
        """
        if not self.count_release() or self._released:
            return
        self.begin_release()
        self.stop_renewing()
        try:
            held = await self._send_release()
        except asyncio.CancelledError:
            with contextlib.suppress(LockError):
                await asyncio.shield(self._finish_release())
            raise
        self._ended.set()
        self._note_release(held)

    async def extend(self, seconds: float) -> None:
        """Set the lease to expire `seconds` from now, and to be renewed for as long.

        It never re-creates a lost lease.  Raises `LockLost` if another client may hold the lock,
        `LockUnavailable` if the server does not answer, ValueError as `Lease.extend`.
        """
        self.check()
        seconds = self._extension(seconds)
        self.begin_extension()
        remote, deadline = self._remote, self.clock.monotonic() + seconds
        self._deadline = min(self._deadline, deadline)  # as in `Lease.extend`
        try:
            answer = await remote.run(remote.scripts.renew, self.holder, ms(seconds), "1")
            self._note_extension(answer != 0, deadline)
        finally:
            self.end_extension()
        self._seconds = seconds
        if self._remote.renewed:
            self.start_renewing()

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

    def stop_renewing(self) -> None:
        """Stop the renewal task."""
        if self._renewal_task is not None:
            self._renewal_task.cancel()

    async def renew(self) -> float:
        """Renew the lease if its task still runs; return when to renew it again (monotonic)."""
        now, extensions = self.clock.monotonic(), self.extensions
        task = self.owner()
        has_ended = task is None or task.done()
        seconds = 0.0 if has_ended else self.renewal_seconds(now)
        if seconds <= 0:
            return self.skip_renewal(now)[1]
        try:
            answer = await self._remote.run(
                self._remote.scripts.renew, self.holder, ms(seconds), "0"
            )
        except LockError as error:
            return self.note_failed_renewal(error, now)[1]
        return self.apply_renewal(answer, now, seconds, extensions)[1]

    async def _send_release(self) -> bool:
        remote, args = self._remote, (self.holder, str(self.token), "")
        repeated, self.release_sent = self.release_sent, True
        if not repeated:
            try:
                first = await remote.transport.run(remote.scripts.release, remote.keys.all, args)
                return self.was_held(first, repeated=False)
            except NO_ANSWER:
                pass
            except RedisError as error:
                self.release_sent = False  # the server has refused it
                unavailable(self.name, error)
        return self.was_held(await remote.run(remote.scripts.release, *args), repeated=True)

    async def _finish_release(self) -> None:
        held = await self._send_release()
        if not self._released:
            self._ended.set()
            self._note_release(held)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class AsyncRedisLock(RedisHandle, AsyncLock):
    """A named lock for asyncio on Redis, Valkey, Sentinel or a cluster; see `RedisLock`.

    `client` is an asyncio client of redis-py or valkey-py, or a URL.  The same task may acquire the
    same handle again.

    >>> async with lock as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    >>> async with await lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    """

    remote: AsyncRemote
    remote_class = AsyncRemote

    def __init__(self, client: Any, name: str, **settings: Unpack[RedisLockSettings]) -> None:
        super().__init__(async_transport_for(client), name, **settings)
        self._reentrant = self.capabilities.reentrant

    if TYPE_CHECKING:

        @property
        def lease(self) -> AsyncRedisLease:
            """See `AsyncLock.lease`."""

        async def __aenter__(self) -> AsyncRedisLease: ...

    async def acquire(
        self, timeout: float | None = None, *, blocking: bool = True
    ) -> AsyncRedisLease:
        """Wait for the lock for at most `timeout` seconds; None: no limit, 0: try once.

        Raises `LockTimeout` if it was not free in time, `LockUnavailable` if the server does not
        answer.
        """
        timeout = time_limit(timeout, blocking)
        task = asyncio.current_task()
        if self._reentrant:
            held: AsyncRedisLease | None = self._held.latest(task)
            if held is not None and held.count_reentry():
                return held
        began = self.clock.monotonic()
        lease = AsyncRedisLease(self, self.new_holder())
        try:
            grant = await self._run_acquire_steps(lease.holder, timeout)
        except BaseException as error:
            self.hooks.waited(self.name, self.clock.monotonic() - began, False)
            if not isinstance(error, LockUnavailable | LockTimeout) or isinstance(error, LateGrant):
                # Shielded, because the task may be cancelled again during the cleanup.
                await asyncio.shield(self._leave(lease.holder, error))
            raise
        lease.begin(grant, self.max_hold)
        if self.renewed:
            lease.start_renewing()
        self._held.add(task, lease)
        _HELD.setdefault(task, weakref.WeakSet()).add(lease)
        self.hooks.waited(self.name, self.clock.monotonic() - began, True)
        return lease

    async def owned(self) -> bool:
        """Return whether this task holds the lock by this handle, according to the server."""
        lease = self._held.latest(asyncio.current_task())
        return (
            lease is not None
            and lease.remaining() > 0
            and self.holds(lease, await self.run(self.scripts.owner))
        )

    async def locked(self) -> bool:
        """Return whether any client holds the lock."""
        return bool(await self.owners())

    async def owner(self) -> str | None:
        """Return the name of the holder; None if the lock is free."""
        return next(iter(await self.owners()), None)

    async def owners(self) -> list[str]:
        """Return the names of all holders: more than one for a shared lock."""
        return self.owners_in(await self.run(self.scripts.owner))

    async def waiters(self) -> int:
        """Return how many live clients wait for the lock."""
        count: int = await self.run(self.scripts.waiters)
        return count

    async def force_release(self, reason: str) -> bool:
        """Revoke the lock and log `reason`; return whether it was held."""
        return self.log_eviction(await self.run(self.scripts.evict), reason)

    async def run(self, script: Script, *args: str) -> Any:
        """Run one of the lock's scripts; repeat it once if there was no answer."""
        return await self.remote.run(script, *args)

    async def _run_acquire_steps(self, holder: str, timeout: float | None) -> Grant:
        remote = self.remote
        give_up = self.give_up_at(timeout)
        steps = self.acquire_steps(holder, timeout)
        wake_list, task = self.keys.wake_list(holder), asyncio.current_task()
        note: str | None = None
        step = next(steps)
        try:
            while True:
                result: Any = None
                try:
                    if isinstance(step, tuple):
                        result = await remote.run(self.scripts.acquire, *step, give_up=give_up)
                    elif isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                    else:
                        note = remote.note_own_lease(_HELD.get(task, ()), task, timeout) or note
                        result = await remote.pop(wake_list, step, give_up)
                except LockUnavailable as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as done:
            grant: Grant = done.value
            return grant
        except LockTimeout as error:
            if note:
                error.add_note(note)
            raise

    async def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or release a lock granted meanwhile, after a cancellation."""
        try:
            await self.run(self.scripts.release, *self.abandon_args(holder))
        except LockError as problem:
            error.add_note(f"and then {type(problem).__name__}: {problem}")


async def _renew_until_lost(reference: weakref.ref[AsyncRedisLease]) -> None:
    lease = reference()
    due = 0.0 if lease is None else lease.clock.monotonic() + lease._seconds / 3
    while lease is not None and due < inf:
        pause = max(0.0, due - lease.clock.monotonic())
        lease = None  # the sleep must not keep the lease alive
        await asyncio.sleep(pause)
        lease = reference()
        if lease is not None:
            due = await lease.renew()
