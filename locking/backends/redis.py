"""The production lock: fair, fenced, without polling, on one Redis or Valkey server or a cluster.

The holder's release hands the lock, with its fencing token, to the first living waiter, which
sleeps in a blocking pop on a list of its own.  So an uncontended pass costs two commands, a
contended one three, and nobody wakes in vain.

It guarantees mutual exclusion while the server keeps its data and no holder is paused past its
lease.  Neither can be promised by any lease: a failover to a replica that lacks the last writes,
or a stopped process, may let two in.  The fencing token is there for that: it grows with every
grant, also when the server has lost everything, so a guarded write can refuse the older holder.

A server that is silent is asked twice, so an acquire fails after two of the client's time-outs,
whatever time-out of its own it was given.  A waiter that was killed may, within the five seconds
until it counts as dead, still be handed the lock, which then stands until that lease ends.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Unpack

from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from locking.backends.redis_handle import RedisHandle, RedisLockSettings
from locking.backends.redis_lease import RedisLeaseState, ms, unavailable
from locking.backends.redis_protocol import (
    Grant,
    LateGrant,
    Script,
)
from locking.backends.redis_transport import NO_ANSWER, Transport, Wait, transport_for
from locking.base import (
    Capabilities,
    Lease,
    Lock,
    LockError,
    LockUnavailable,
)
from locking.renewal import RENEWER, Renewal, Renewer


class RedisLease(RedisLeaseState, Lease):
    """A granted `RedisLock`; acquired again by its own thread, it is released as many times."""

    __slots__ = ("_lock", "_thread")

    def __init__(self, lock: RedisLock, holder: str) -> None:
        super().__init__(lock.name, holder, lock.lease, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._thread = threading.current_thread()

    @property
    def ident(self) -> int | None:
        """The number of the owning thread."""
        return self._thread.ident

    @property
    def server(self) -> object:
        """The connections that the renewal goes over."""
        return self._lock.transport

    def belongs_to_current_thread(self) -> bool:
        """Whether this thread acquired it: the number of a thread is given again, it is not."""
        return self._thread is threading.current_thread()

    def release(self) -> None:
        """Let the next client in, at the last of as many releases as there were acquires."""
        if self.count_release():
            super().release()

    def renew(self) -> tuple[Renewal, float]:
        """Lengthen the lease if its owner still wants it; called by the renewal thread."""
        now = self.clock.monotonic()
        seconds = self.renewal_seconds(now) if _is_alive(self._thread) else 0.0
        if seconds <= 0:
            return self.skip_renewal(now)
        try:
            answer = self._lock.run(self._lock.scripts.renew, self.holder, ms(seconds), "0")
        except LockError as error:
            return self.note_failed_renewal(error, now)
        return self.apply_renewal(answer, now, seconds)

    def _release(self) -> bool:
        if self.is_inherited():
            return False
        self.begin_release()
        self._lock.renewer.cancel(self.holder)
        answer = self._send_release()
        self._lock.forget(self)
        return self.was_held(answer)

    def _send_release(self) -> int:
        lock, args = self._lock, (self.holder, str(self.token), "")
        if not self.release_sent:
            try:
                first: int = lock.transport.run(lock.scripts.release, lock.keys.all, args)
            except NO_ANSWER:
                self.release_sent = True
            except RedisError as error:
                unavailable(self.name, error)
            else:
                return first
        answer: int = lock.run(lock.scripts.release, *args)
        return answer

    def _extend(self, seconds: float) -> bool:
        answer: int = self._lock.run(self._lock.scripts.renew, self.holder, ms(seconds), "1")
        return answer != 0


class RedisLock(RedisHandle, Lock):
    """A named lock on a Redis (from 7) or Valkey (from 8) server, Sentinel or cluster.

    `client` is a blocking redis-py client, best from `locking.redis_client`; its time-outs
    are used, its retries are not.  `lease` is in seconds: how long a crashed holder blocks the
    others.  With `renew`, a living holder keeps the lock longer than that, though not longer than
    `max_hold` seconds.  A lock that is not `fair` lets whoever comes first have it when it is free:
    more throughput, no order.  `owner` says to others who holds it.  With `replicas`, a grant
    counts only once that many replicas have it, which must happen within `replica_timeout` seconds.

    The same thread may acquire the same handle again; it gets the same lease, with the same token,
    and has to release it as often.
    """

    capabilities = Capabilities(
        fence=True,
        fair=True,
        renewal=True,
        extend=True,
        reentrant=True,
        survives_server_restart=False,
        crash_release="lease",
        counts_waiters=True,
        knows_owner=True,
        force_release=True,
    )

    def __init__(
        self,
        client: Redis | RedisCluster | Transport,
        name: str,
        *,
        replicas: int = 0,
        replica_timeout: float = 0.1,
        renewer: Renewer = RENEWER,
        **settings: Unpack[RedisLockSettings],
    ) -> None:
        super().__init__(name, **settings)
        self.transport = transport_for(client)
        self.renewer = renewer
        self._reentrant = self.capabilities.reentrant
        self._wait: Wait = (replicas, round(replica_timeout * 1000)) if replicas else None
        # Weak, so that a lease that its owner forgot is not kept alive by being registered here.
        self._held: dict[int | None, Callable[[], RedisLease | None]] = {}

    def acquire(self, timeout: float | None = None) -> RedisLease:
        """Wait for the lock for at most `timeout` seconds; None waits for ever, 0 tries once."""
        held = self._reentrant and self._held.get(threading.get_ident(), _nothing)()
        if held and held.belongs_to_current_thread() and held.count_reentry():
            return held
        began = self.clock.monotonic()
        holder = self.new_holder()
        lease = RedisLease(self, holder)
        if self.renewed:
            self.renewer.register(holder, lease, began + self.lease / 3)
        try:
            grant = self._run_acquire_steps(holder, timeout)
            if self._wait:
                grant = self._replicate(holder, grant, self._wait)
        except BaseException as error:
            self.renewer.cancel(holder)
            self.hooks.waited(self.name, self.clock.monotonic() - began, False)
            if not isinstance(error, LockError) or isinstance(error, LateGrant):
                self._leave(holder, error)
            raise
        lease.begin(grant, self.max_hold)
        self._held[lease.ident] = weakref.ref(lease)
        self.hooks.waited(self.name, self.clock.monotonic() - began, True)
        return lease

    def owner(self) -> str | None:
        """Who holds the lock now; None if it is free."""
        return next(iter(self.owners()), None)

    def owners(self) -> list[str]:
        """All who hold the lock now: more than one where it can be shared."""
        return self.owners_in(self.run(self.scripts.owner))

    def waiters(self) -> int:
        """How many living clients wait for the lock now."""
        count: int = self.run(self.scripts.waiters)
        return count

    def force_release(self, reason: str) -> bool:
        """Take the lock away from whoever holds it and give it to the next in line."""
        return self.log_eviction(self.run(self.scripts.evict), reason)

    def run(self, script: Script, *args: str) -> Any:
        """Run one of the lock's scripts, twice if the first time brought no answer.

        That is harmless, since every script recognises what it has done before by the token.
        Raises `LockUnavailable`.
        """
        try:
            try:
                return self.transport.run(script, self.keys.all, args)
            except NO_ANSWER:
                return self.transport.run(script, self.keys.all, args)
        except RedisError as error:
            unavailable(self.name, error)

    def forget(self, lease: RedisLease) -> None:
        """Make a released lease unknown to its owning thread."""
        if self._held.get(lease.ident, _nothing)() is lease:
            self._held.pop(lease.ident, None)

    def _run_acquire_steps(self, holder: str, timeout: float | None) -> Grant:
        steps = self.acquire_steps(holder, timeout)
        wake_list = self.keys.wake_list(holder)
        step = next(steps)
        try:
            while True:
                if isinstance(step, float):
                    step = steps.send(self._pop(wake_list, step))
                else:
                    step = steps.send(self.run(self.scripts.acquire, *step))
        except StopIteration as done:
            grant: Grant = done.value
            return grant

    def _replicate(self, holder: str, grant: Grant, wait: tuple[int, int]) -> Grant:
        """Make sure that a failover within the lease knows of the grant."""
        # WAIT counts the writes of its own connection, and the grant may have come from another's:
        # so write again, which lengthens the lease, and wait for that.
        sent_at = self.clock.monotonic()
        args = (holder, ms(self.lease), "1")
        try:
            ours, reached = self.transport.run(self.scripts.renew, self.keys.all, args, wait)
        except RedisError as error:
            unavailable(self.name, error)
        in_time = self.clock.monotonic() < sent_at + self.lease
        if ours and reached >= wait[0] and in_time:
            return Grant(grant.fence, sent_at)
        self.run(self.scripts.release, holder, str(grant.fence), "")
        late = "" if in_time else ", but the lease was over by then"
        raise LockUnavailable(
            f"{reached} of {wait[0]} replicas have the grant of {self.name!r}{late}"
        )

    def _pop(self, wake_list: str, seconds: float) -> bytes | None:
        try:
            return self.transport.pop(wake_list, seconds)
        except NO_ANSWER:
            # The message may be gone with the connection; the acquire that follows finds out.
            return None
        except RedisError as error:
            unavailable(self.name, error)

    def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or give back what was granted meanwhile: the caller was interrupted."""
        try:
            self.run(self.scripts.release, *self.abandon_args(holder))
        except LockUnavailable as problem:
            error.add_note(f"and then LockUnavailable: {problem}")


def _nothing() -> None:
    return None


def _is_alive(thread: threading.Thread) -> bool:
    # Not Thread.is_alive: what stands for a greenlet, or for a thread that threading did not
    # start, says yes to that for ever; but gevent takes it off this list when the greenlet ends.
    return thread in threading.enumerate()
