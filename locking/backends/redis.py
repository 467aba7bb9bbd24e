"""The production lock: fair and fenced, without polling, on Redis or Valkey, single or cluster.

The holder's release hands the lock and its fencing token to the first live waiter, which sleeps in
a blocking pop on its own list.  An uncontended acquire and release cost two commands, a contended
pair three, and no waiter wakes in vain.

Mutual exclusion holds while the server keeps its data and no holder is paused past its lease.  No
lease can promise more: a failover to a replica that lacks the last writes, or a paused process, may
admit two holders.  The fencing token covers these cases: it grows with every grant, even after the
server has lost all data, so a guarded write can refuse the older holder.

A command without an answer is sent twice, so an acquire fails after two of the client's time-outs,
regardless of its own timeout.  A killed waiter counts as alive for up to five seconds; if it is
granted the lock in that time, the lock stays held until that lease expires.
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
    """A granted `RedisLock`; release it once per acquire if its thread acquired it again."""

    __slots__ = ("_lock", "_thread")

    def __init__(self, lock: RedisLock, holder: str) -> None:
        super().__init__(lock.name, holder, lock.lease, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._thread = threading.current_thread()

    @property
    def ident(self) -> int | None:
        """The identifier of the owning thread."""
        return self._thread.ident

    @property
    def server(self) -> object:
        """The transport that renewals use."""
        return self._lock.transport

    def belongs_to_current_thread(self) -> bool:
        """Return whether this thread acquired it; identifiers are reused, so compare objects."""
        return self._thread is threading.current_thread()

    def release(self) -> None:
        """Release the lock, at the last of as many releases as there were acquires."""
        if self.count_release():
            super().release()

    def renew(self) -> tuple[Renewal, float]:
        """Extend the lease if its owner still needs it; called by the renewal thread."""
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

    `client` is a blocking redis-py client, best from `locking.redis_client`; the lock uses its
    time-outs but not its retries.  `lease` is the time in seconds for which a crashed holder blocks
    the others.  With `renew`, a live holder keeps the lock longer, up to `max_hold` seconds.
    Without `fair`, the first client to ask gets a free lock: more throughput, no order.  `owner` is
    the holder's name for others.  With `replicas`, a grant counts only if that many replicas
    confirm it within `replica_timeout` seconds.

    The same thread may acquire the same handle again: it gets the same lease with the same token
    and releases it as often.
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
        # Weak references, so that a lease that its owner dropped is not kept alive.
        self._held: dict[int | None, Callable[[], RedisLease | None]] = {}

    def acquire(self, timeout: float | None = None) -> RedisLease:
        """Wait for the lock for at most `timeout` seconds; None: no limit, 0: try once."""
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
        """Return the name of the holder; None if the lock is free."""
        return next(iter(self.owners()), None)

    def owners(self) -> list[str]:
        """Return the names of all holders: more than one for a shared lock."""
        return self.owners_in(self.run(self.scripts.owner))

    def waiters(self) -> int:
        """Return how many live clients wait for the lock."""
        count: int = self.run(self.scripts.waiters)
        return count

    def force_release(self, reason: str) -> bool:
        """Revoke the lock and hand it to the next waiter; return whether it was held."""
        return self.log_eviction(self.run(self.scripts.evict), reason)

    def run(self, script: Script, *args: str) -> Any:
        """Run one of the lock's scripts; repeat it once if there was no answer.

        A repetition is harmless: each script recognises its earlier execution by the token.
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
        """Remove a released lease from the leases held by its thread."""
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
        """Wait until enough replicas have the grant, so that a failover keeps it."""
        # WAIT covers only writes of its own connection, and another connection may have written the
        # grant. So extend the lease on this connection and wait for that write.
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
        late = "" if in_time else ", after the lease had expired"
        raise LockUnavailable(
            f"{reached} of {wait[0]} replicas have the grant of {self.name!r}{late}"
        )

    def _pop(self, wake_list: str, seconds: float) -> bytes | None:
        try:
            return self.transport.pop(wake_list, seconds)
        except NO_ANSWER:
            # The message may be lost with the connection; the next acquire step finds out.
            return None
        except RedisError as error:
            unavailable(self.name, error)

    def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or release a lock granted meanwhile, after an interruption."""
        try:
            self.run(self.scripts.release, *self.abandon_args(holder))
        except LockUnavailable as problem:
            error.add_note(f"and then LockUnavailable: {problem}")


def _nothing() -> None:
    return None


def _is_alive(thread: threading.Thread) -> bool:
    # Not Thread.is_alive: it always returns True for the stand-in of a greenlet or of a foreign
    # thread, but gevent removes the stand-in from this list when the greenlet ends.
    return thread in threading.enumerate()
