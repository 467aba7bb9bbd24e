"""The production lock: fair and fenced, without polling, on Redis or Valkey, single or cluster.

The holder's release hands the lock and its fencing token to the first live waiter, which sleeps in
a blocking pop on its own list.  An uncontended acquire and release cost two commands, a contended
pair three, and no waiter wakes in vain.

Mutual exclusion holds while the server keeps its data and no holder is paused past its lease.  No
lease can promise more: a failover to a replica that lacks the last writes, or a paused process, may
admit two holders.  The fencing token covers these cases: it grows with every grant, even after the
server has lost all data, so a guarded write can refuse the older holder.

A command without an answer is sent twice.  An acquire fails if the server does not answer its first
command; later it rides out reconnects and fail-overs, for at most its time-out, or half a minute if
it has none.  Killed waiters, however many, delay the next living one by about a second.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Unpack

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
from locking.backends.redis_transport import (
    NO_ANSWER,
    Wait,
    transport_for,
)
from locking.base import Lease, Lock, LockError, LockTimeout, LockUnavailable, time_limit
from locking.renewal import RENEWER, Renewal, Renewer


class BlockingRemote(Remote):
    """A lock on its server, for blocking clients."""

    __slots__ = ("renewer",)

    renewer: Renewer

    def run(self, script: Script, *args: str, give_up: float | None = None) -> Any:
        """Run one of the lock's scripts; repeat it once if there was no answer.

        A repetition is harmless: each script recognises its earlier execution by the token.
        Waits for no answer past `give_up` (monotonic).  Raises `LockUnavailable`.
        """
        try:
            try:
                if give_up is None:
                    return self.transport.run(script, self.keys.all, args)
                patience = self.patience(give_up)
                return self.transport.run(script, self.keys.all, args, None, patience)
            except NO_ANSWER:
                if not self.may_repeat(give_up):
                    raise
                patience = self.patience(give_up)
                return self.transport.run(script, self.keys.all, args, None, patience)
        except RedisError as error:
            unavailable(self.name, error)

    def pop(self, wake_list: str, seconds: float, give_up: float | None) -> bytes | None:
        """Wait for a message; None also if the connection is lost, and perhaps a message with it.

        The next acquire step finds out.  Raises `LockUnavailable`.
        """
        try:
            if give_up is None:
                popped: bytes | None = self.transport.pop(wake_list, seconds)
                return popped
            popped = self.transport.pop(wake_list, seconds, self.patience(give_up, seconds))
        except RedisError as error:
            self.after_pop(error, give_up)
            return None
        return popped

    def server(self) -> object:
        """Return what identifies the server for renewals: on a cluster, the node."""
        node_of = getattr(self.transport, "node_of", None)  # a cluster's transport has it
        try:
            return self.transport if node_of is None else node_of(self.keys.all[0])
        except RedisError:
            return self.transport  # no node serves the slot at the moment


class RedisLease(RedisLeaseState, Lease):
    """A granted `RedisLock`; release it once per acquire if its thread acquired it again."""

    __slots__ = ()

    @property
    def server(self) -> object:
        """The server that renewals ask."""
        return self._remote.server()

    def release(self) -> None:
        """Release the lock, at the last of as many releases as there were acquires."""
        if self.count_release():
            super().release()

    def extend(self, seconds: float) -> None:
        """Set the lease to expire `seconds` from now, and to be renewed for as long; as `Lease`."""
        self.begin_extension()
        try:
            super().extend(seconds)
        finally:
            self.end_extension()
        self._seconds = seconds
        if self._remote.renewed:
            due = self.clock.monotonic() + seconds / 3
            self._remote.renewer.register(self.holder, self, due)

    def renew(self) -> tuple[Renewal, float]:
        """Extend the lease if its owner still needs it; called by the renewal thread."""
        now, extensions = self.clock.monotonic(), self.extensions
        seconds = self.renewal_seconds(now) if _is_alive(self.owner()) else 0.0
        if seconds <= 0:
            return self.skip_renewal(now)
        try:
            answer = self._remote.run(self._remote.scripts.renew, self.holder, ms(seconds), "0")
        except LockError as error:
            return self.note_failed_renewal(error, now)
        return self.apply_renewal(answer, now, seconds, extensions)

    def _release(self) -> bool:
        if self.is_inherited():
            return False
        if self._remote.renewed:
            self._remote.renewer.cancel(self.holder)
        remote, args = self._remote, (self.holder, str(self.token), "")
        repeated, self.release_sent = self.release_sent, True
        if not repeated:
            try:
                first = remote.transport.run(remote.scripts.release, remote.keys.all, args)
                return self.was_held(first, repeated=False)
            except NO_ANSWER:
                pass
            except RedisError as error:
                self.release_sent = False  # the server has refused it
                unavailable(self.name, error)
        return self.was_held(remote.run(remote.scripts.release, *args), repeated=True)

    def _extend(self, seconds: float) -> bool:
        answer: int = self._remote.run(self._remote.scripts.renew, self.holder, ms(seconds), "1")
        return answer != 0


class BlockingLockSettings(RedisLockSettings, total=False):
    """The settings of the blocking locks; `RedisLock` has the defaults."""

    replicas: int
    replica_timeout: float
    renewer: Renewer


class RedisLock(RedisHandle, Lock):
    """A named lock on a Redis (from 6.2) or Valkey server, Sentinel or cluster.

    `client` is a blocking client of redis-py or valkey-py, best from `locking.redis_client`, or a
    URL as `locking.redis_client.connect` takes; the lock uses the client's time-outs but not its
    retries.  `lease` is the time in seconds for which a crashed holder blocks the others.  With
    `renew`, a live holder keeps the lock longer, up to `max_hold` seconds.  Without `fair`, the
    first client to ask gets a free lock: more throughput, no order.  `owner` is the holder's name
    for others.  With `replicas`, a grant counts only if that many replicas confirm it within
    `replica_timeout` seconds.

    The same thread may acquire the same handle again: it gets the same lease with the same token
    and releases it as often.  Another handle of the same name in that thread has to wait; without a
    time-out that is an error, because the thread would wait for itself.
    """

    remote: BlockingRemote
    remote_class = BlockingRemote

    def __init__(
        self,
        client: Any,
        name: str,
        *,
        replicas: int = 0,
        replica_timeout: float = 0.1,
        renewer: Renewer = RENEWER,
        **settings: Unpack[RedisLockSettings],
    ) -> None:
        super().__init__(transport_for(client), name, **settings)
        self.remote.renewer = self.renewer = renewer
        self._reentrant = self.capabilities.reentrant
        self._wait: Wait = (replicas, round(replica_timeout * 1000)) if replicas else None

    if TYPE_CHECKING:

        @property
        def lease(self) -> RedisLease:
            """See `Lock.lease`."""

        def __enter__(self) -> RedisLease: ...

    def server_address(self) -> str:
        """See `Handle.server_address`."""
        return str(self.transport.address())

    def acquire(self, timeout: float | None = None, *, blocking: bool = True) -> RedisLease:
        """Wait for the lock for at most `timeout` seconds; None: no limit, 0: try once."""
        if timeout is not None or not blocking:
            timeout = time_limit(timeout, blocking)
        thread = threading.current_thread()
        if self._reentrant:
            held: RedisLease | None = self._held.latest(thread)
            if held is not None and held.count_reentry():
                return held
        monotonic = self.remote.clock.monotonic
        began = monotonic()
        holder = self.new_holder()
        lease = RedisLease(self, holder, thread)
        if self.renewed:
            self.renewer.register(holder, lease, began + self.lease_seconds / 3)
        try:
            grant = self._run_acquire_steps(lease, timeout)
            if self._wait:
                grant = self._replicate(holder, grant, self._wait)
        except BaseException as error:
            self.renewer.cancel(holder)
            self.hooks.waited(self.name, monotonic() - began, False)
            if not isinstance(error, LockUnavailable | LockTimeout) or isinstance(error, LateGrant):
                self._leave(holder, error)
            raise
        lease.begin(grant, self.max_hold)
        self._held.add(thread, lease)
        self.hooks.waited(self.name, monotonic() - began, True)
        return lease

    def owned(self) -> bool:
        """Return whether this thread holds the lock by this handle, according to the server."""
        lease = self._held.latest(threading.current_thread())
        return (
            lease is not None
            and lease.remaining() > 0
            and self.holds(lease, self.run(self.scripts.owner))
        )

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
        """Run one of the lock's scripts; see `BlockingRemote.run`."""
        return self.remote.run(script, *args)

    def _run_acquire_steps(self, lease: RedisLease, timeout: float | None) -> Grant:
        remote, holder = self.remote, lease.holder
        give_up = self.give_up_at(timeout)
        steps = self.acquire_steps(holder, timeout)
        wake_list = ""
        note: str | None = None
        step = next(steps)
        try:
            while True:
                result: Any = None
                try:
                    if isinstance(step, tuple):
                        result = remote.run(self.scripts.acquire, *step, give_up=give_up)
                    elif isinstance(step, Pause):
                        self.clock.sleep(step.seconds)
                    else:
                        if not wake_list:
                            wake_list, thread = self.keys.wake_list(holder), lease.owner()
                            others = self.renewer.leases(lease.server)
                            note = remote.note_own_lease(others, thread, timeout)
                        result = remote.pop(wake_list, step, give_up)
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

    def _replicate(self, holder: str, grant: Grant, wait: tuple[int, int]) -> Grant:
        """Wait until enough replicas have the grant, so that a failover keeps it."""
        # WAIT covers only writes of its own connection, and another connection may have written the
        # grant. So extend the lease on this connection and wait for that write.
        sent_at = self.clock.monotonic()
        args = (holder, ms(self.lease_seconds), "1")
        try:
            ours, reached = self.transport.run(self.scripts.renew, self.keys.all, args, wait)
        except RedisError as error:
            unavailable(self.name, error)
        in_time = self.clock.monotonic() < sent_at + self.lease_seconds
        if ours and reached >= wait[0] and in_time:
            return Grant(grant.fence, sent_at)
        self.run(self.scripts.release, holder, str(grant.fence), "")
        late = "" if in_time else ", after the lease had expired"
        raise LockUnavailable(
            f"{reached} of {wait[0]} replicas have the grant of {self.name!r}{late}"
        )

    def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or release a lock granted meanwhile, after an interruption."""
        try:
            self.run(self.scripts.release, *self.abandon_args(holder))
        except LockError as problem:
            error.add_note(f"and then {type(problem).__name__}: {problem}")


def _is_alive(thread: threading.Thread | None) -> bool:
    # Not Thread.is_alive: it always returns True for the stand-in of a greenlet or of a foreign
    # thread, but gevent removes the stand-in from this list when the greenlet ends.
    return thread in threading.enumerate()
