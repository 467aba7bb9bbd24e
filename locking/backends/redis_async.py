"""The production Redis lock for asyncio: the same scripts, keys and guarantees.

An `AsyncRedisLock` and a `RedisLock` of the same name exclude each other and share one queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from math import inf
from types import TracebackType
from typing import Any, Self, Unpack

from redis.asyncio import Redis
from redis.exceptions import MaxConnectionsError, NoScriptError, RedisError, ResponseError

from locking.backends.redis_handle import RedisHandle, RedisLockSettings
from locking.backends.redis_lease import RedisLeaseState, ms, unavailable
from locking.backends.redis_protocol import (
    Grant,
    LateGrant,
    Script,
)
from locking.backends.redis_transport import DEFAULT_TIMEOUT, NO_ANSWER, encode_command
from locking.base import LockError, LockUnavailable


class AsyncTransport:
    """Sends scripts and blocking pops over the connections of an asyncio client's pool."""

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        timeout = self._pool.connection_kwargs.get("socket_timeout")
        self._timeout: float = DEFAULT_TIMEOUT if timeout is None else timeout

    async def run(self, script: Script, keys: tuple[str, ...], args: tuple[str, ...]) -> Any:
        """Run the script by its hash, or in full if the server does not know it."""
        tail = (str(len(keys)), *keys, *args)
        try:
            return await self._ask(self._timeout, "EVALSHA", script.sha, *tail)
        except NoScriptError:
            return await self._ask(self._timeout, "EVAL", script.source, *tail)

    async def pop(self, key: str, seconds: float) -> bytes | None:
        """Run BLPOP for `seconds`; allow the client's time-out on top for the answer."""
        reply = await self._ask(seconds + self._timeout, "BLPOP", key, f"{seconds:.3f}", raw=True)
        return None if reply is None else reply[1]

    async def _ask(self, timeout: float, *words: str, raw: bool = False) -> Any:
        connection, pooled = await self._take()
        in_step = False
        try:
            await connection.send_packed_command([encode_command(*words)], check_health=False)
            answer = await connection.read_response(disable_decoding=raw, timeout=timeout)
            in_step = True
            return answer
        except ResponseError:
            in_step = True
            raise
        finally:
            # After a cancellation, the late answer must not be read as another command's.
            if not in_step or not pooled:
                await connection.disconnect(nowait=True)
            if pooled:
                await self._pool.release(connection)

    async def _take(self) -> tuple[Any, bool]:
        try:
            return await self._pool.get_connection(), True  # type: ignore[no-untyped-call]
        except MaxConnectionsError:
            # redis-py's pools are limited to 100 connections; the number of waiting tasks is not.
            connection: Any = self._pool.connection_class(**self._pool.connection_kwargs)
            await connection.connect()
            return connection, False


class AsyncRedisLease(RedisLeaseState):
    """A granted `AsyncRedisLock`; the asyncio version of `RedisLease`."""

    __slots__ = ("_ended", "_lock", "_renewal_task")

    def __init__(self, lock: AsyncRedisLock, holder: str) -> None:
        super().__init__(lock.name, holder, lock.lease, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._ended = asyncio.Event()
        self._renewal_task: asyncio.Task[None] | None = None

    def start_renewing(self) -> None:
        """Start the renewal task."""
        # The task has only a weak reference, so that a lease that its owner dropped can expire.
        self._renewal_task = asyncio.create_task(_renew_until_lost(weakref.ref(self)))

    async def release(self) -> None:
        """Release the lock, at the last of as many releases as there were acquires.

        Raises `LockLost` if the lease ended before, `LockUnavailable` if the server does not
        answer; call `release` again in that case.
        """
        if not self.count_release() or self._released:
            return
        self._is_lost()  # records an expiry before the server is asked
        self.begin_release()
        self.stop_renewing()
        answer = await self._send_release()
        self._lock.forget(self)
        self._ended.set()
        self._note_release(self.was_held(answer))

    async def extend(self, seconds: float) -> None:
        """Set the lease to expire `seconds` from now; never re-create a lost lease.

        Raises `LockLost` if another client may hold the lock, `LockUnavailable` if the server does
        not answer.
        """
        self.check()
        sent_at = self.clock.monotonic()
        answer = await self._lock.run(self._lock.scripts.renew, self.holder, ms(seconds), "1")
        self._note_extension(answer != 0, sent_at + seconds)

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
        """Renew the lease; return when to renew it again (monotonic)."""
        now = self.clock.monotonic()
        seconds = self.renewal_seconds(now)
        if seconds <= 0:
            return self.skip_renewal(now)[1]
        try:
            answer = await self._lock.run(self._lock.scripts.renew, self.holder, ms(seconds), "0")
        except LockError as error:
            return self.note_failed_renewal(error, now)[1]
        return self.apply_renewal(answer, now, seconds)[1]

    async def _send_release(self) -> int:
        lock, args = self._lock, (self.holder, str(self.token), "")
        if not self.release_sent:
            try:
                first: int = await lock.transport.run(lock.scripts.release, lock.keys.all, args)
            except NO_ANSWER:
                self.release_sent = True
            except RedisError as error:
                unavailable(self.name, error)
            else:
                return first
        answer: int = await lock.run(lock.scripts.release, *args)
        return answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except LockError as problem:
            if error is None:
                raise
            error.add_note(f"and then {type(problem).__name__}: {problem}")


class AsyncRedisLock(RedisHandle):
    """A named lock for asyncio on a Redis or Valkey server; parameters as for `RedisLock`.

    The same task may acquire the same handle again.

    >>> async with await lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    """

    def __init__(self, client: Redis, name: str, **settings: Unpack[RedisLockSettings]) -> None:
        super().__init__(name, **settings)
        self.transport = AsyncTransport(client)
        self._held: weakref.WeakKeyDictionary[Any, AsyncRedisLease] = weakref.WeakKeyDictionary()

    async def acquire(self, timeout: float | None = None) -> AsyncRedisLease:
        """Wait for the lock for at most `timeout` seconds; None: no limit, 0: try once.

        Raises `LockTimeout` if it was not free in time, `LockUnavailable` if the server does not
        answer.
        """
        task = asyncio.current_task()
        held = self._held.get(task)
        if held is not None and held.count_reentry():
            return held
        began = self.clock.monotonic()
        lease = AsyncRedisLease(self, self.new_holder())
        try:
            grant = await self._run_acquire_steps(lease.holder, timeout)
        except BaseException as error:
            self.hooks.waited(self.name, self.clock.monotonic() - began, False)
            if not isinstance(error, LockError) or isinstance(error, LateGrant):
                # Shielded, because the task may be cancelled again during the cleanup.
                await asyncio.shield(self._leave(lease.holder, error))
            raise
        lease.begin(grant, self.max_hold)
        if self.renewed:
            lease.start_renewing()
        self._held[task] = lease
        self.hooks.waited(self.name, self.clock.monotonic() - began, True)
        return lease

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
        try:
            try:
                return await self.transport.run(script, self.keys.all, args)
            except NO_ANSWER:
                return await self.transport.run(script, self.keys.all, args)
        except RedisError as error:
            unavailable(self.name, error)

    def forget(self, lease: AsyncRedisLease) -> None:
        """Remove a released lease from the leases held by its task."""
        for task, held in list(self._held.items()):
            if held is lease:
                del self._held[task]

    async def _run_acquire_steps(self, holder: str, timeout: float | None) -> Grant:
        steps = self.acquire_steps(holder, timeout)
        wake_list = self.keys.wake_list(holder)
        step = next(steps)
        try:
            while True:
                if isinstance(step, float):
                    step = steps.send(await self._pop(wake_list, step))
                else:
                    step = steps.send(await self.run(self.scripts.acquire, *step))
        except StopIteration as done:
            grant: Grant = done.value
            return grant

    async def _pop(self, wake_list: str, seconds: float) -> bytes | None:
        try:
            return await self.transport.pop(wake_list, seconds)
        except NO_ANSWER:
            # The message may be lost with the connection; the next acquire step finds out.
            return None
        except RedisError as error:
            unavailable(self.name, error)

    async def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or release a lock granted meanwhile, after a cancellation."""
        try:
            await self.run(self.scripts.release, *self.abandon_args(holder))
        except LockUnavailable as problem:
            error.add_note(f"and then LockUnavailable: {problem}")


async def _renew_until_lost(reference: weakref.ref[AsyncRedisLease]) -> None:
    lease = reference()
    due = 0.0 if lease is None else lease.clock.monotonic() + lease._lease / 3
    while lease is not None and due < inf:
        pause = max(0.0, due - lease.clock.monotonic())
        lease = None  # the sleep must not keep the lease alive
        await asyncio.sleep(pause)
        lease = reference()
        if lease is not None:
            due = await lease.renew()
