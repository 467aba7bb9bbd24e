"""The production lock: fair, fenced, without polling, on one Redis or Valkey server or a cluster.

The holder's release hands the lock, with its fencing token, to the first living waiter, which
sleeps in a blocking pop on a list of its own.  So an uncontended pass costs two commands, a
contended one three, and nobody wakes in vain.

It guarantees mutual exclusion while the server keeps its data and no holder is paused past its
lease.  Neither can be promised by any lease: a failover to a replica that lacks the last writes,
or a stopped process, may let two in.  The fencing token is there for that: it grows with every
grant, also when the server has lost everything, so a guarded write can refuse the older holder.
"""

from __future__ import annotations

import logging
import threading
from math import inf
from typing import Any, NoReturn

from redis import Redis, RedisCluster
from redis.exceptions import RedisError

from locking.backends.redis_protocol import (
    MUTEX,
    OWNER,
    TOKENS,
    WAITERS,
    Grant,
    Keys,
    Script,
    Scripts,
    turn,
)
from locking.backends.redis_wire import NO_ANSWER, Wait, Wire, wire_to
from locking.base import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    Capabilities,
    Clock,
    Hooks,
    Lease,
    Lock,
    LockError,
    LockUnavailable,
)
from locking.renewal import RENEWER, Renewal, Renewer

logger = logging.getLogger(__name__)


class RedisLease(Lease):
    """A granted `RedisLock`; acquired again by its own thread, it is released as many times."""

    __slots__ = (
        "_count", "_holder", "_lock", "_max_until", "_process", "_release_sent", "_releasing",
        "_thread",
    )  # fmt: skip

    def __init__(self, lock: RedisLock, holder: str) -> None:
        super().__init__(lock.name, clock=lock.clock, hooks=lock.hooks)
        self._lock = lock
        self._holder = holder
        self._thread = threading.current_thread()
        self._process = TOKENS.process
        self._count = 1
        self._max_until = inf
        self._releasing = False
        self._release_sent = False

    @property
    def server(self) -> object:
        """The connections that the renewal goes over."""
        return self._lock.wire

    def begin(self, grant: Grant, seconds: float, max_hold: float | None) -> None:
        """Start the lease: the lock has been granted."""
        self.token = grant.fence
        self._granted_at = self.clock.monotonic()
        self._deadline = grant.since + seconds
        if max_hold is not None:
            self._max_until = self._granted_at + max_hold

    def release(self) -> None:
        """Let the next client in, at the last of as many releases as there were acquires."""
        if self._count > 1 and not self._released:
            self._count -= 1
            return
        super().release()

    def renew(self) -> tuple[Renewal, float]:
        """Lengthen the lease if its owner still wants it; called by the renewal thread."""
        now = self.clock.monotonic()
        interval = self._lock.lease / 3
        if self.token is None:
            return Renewal.HELD, now + interval  # still waiting in line
        if self._is_lost():
            return Renewal.LOST, inf
        seconds = min(self._lock.lease, self._max_until - now)
        if seconds <= 0 or not _is_alive(self._thread):
            return Renewal.HELD, self._deadline  # the end is near, and will be noted then
        try:
            answer = self._lock.run(self._lock.scripts.renew, self._holder, _ms(seconds), "0")
        except LockError as error:
            self.hooks.renewal_failed(self.name, error)
            return Renewal.UNKNOWN, min(now + interval / 3, self._deadline)
        if answer == 0:
            if not self._releasing:  # else it is our own release that was carried out first
                self.mark_lost("the server no longer knows it")
            return Renewal.LOST, inf
        self._deadline = max(self._deadline, now + seconds)
        return (Renewal.RENEWED if answer == 1 else Renewal.HELD), now + interval

    def enter_again(self) -> bool:
        """Count one more acquire of the owning thread; False if there is nothing to share."""
        if self._released or self._is_lost():
            return False
        self._count += 1
        return True

    def _is_lost(self) -> bool:
        if self._process is not TOKENS.process:
            self.mark_lost("it belongs to the parent of this forked process")
        return super()._is_lost()

    def _release(self) -> bool:
        if self._process is not TOKENS.process:
            return False
        # Before the release is sent: a renewal that the server carries out after it finds
        # nothing, and must not take that for a loss.
        self._releasing = True
        self._lock.renewer.cancel(self._holder)
        answer = self._send_release()
        self._lock.forget(self)
        return answer == 1 or (answer == 2 and self._release_sent)

    def _send_release(self) -> int:
        args = (self._holder, str(self.token), "")
        lock = self._lock
        if not self._release_sent:
            try:
                first: int = lock.wire.run(lock.scripts.release, lock.keys.all, args)
            except NO_ANSWER:
                # From now on "not yours" may mean "you have released it already".
                self._release_sent = True
            except RedisError as error:
                lock.unavailable(error)
            else:
                return first
        answer: int = lock.run(lock.scripts.release, *args)
        return answer

    def _extend(self, seconds: float) -> bool:
        answer: int = self._lock.run(self._lock.scripts.renew, self._holder, _ms(seconds), "1")
        return answer != 0


class RedisLock(Lock):
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
    scripts: Scripts = MUTEX

    def __init__(
        self,
        client: Redis | RedisCluster | Wire,
        name: str,
        *,
        lease: float = 10.0,
        fair: bool = True,
        renew: bool = True,
        max_hold: float | None = None,
        owner: str | None = None,
        replicas: int = 0,
        replica_timeout: float = 0.1,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
        renewer: Renewer = RENEWER,
    ) -> None:
        if lease <= 0:
            raise ValueError(f"a lease must last longer than {lease} s")
        self.name = name
        self.lease = lease if max_hold is None else min(lease, max_hold)
        self.max_hold = max_hold
        self.hooks = hooks
        self.clock = clock
        self.keys = Keys.of(name)
        self.wire = wire_to(client)
        self.renewer = renewer
        self._mode = "f" if fair else "u"
        self._renew = renew
        self._owner = owner
        self._wait: Wait = (replicas, round(replica_timeout * 1000)) if replicas else None
        self._held: dict[int, RedisLease] = {}

    def acquire(self, timeout: float | None = None) -> RedisLease:
        """Wait for the lock for at most `timeout` seconds; None waits for ever, 0 tries once."""
        thread = threading.get_ident()
        held = self._held.get(thread)
        if held is not None and held.enter_again():
            return held
        began = self.clock.monotonic()
        holder = f"{TOKENS.new()}:{self._owner or TOKENS.process}"
        lease = RedisLease(self, holder)
        if self._renew:
            self.renewer.register(holder, lease, began + self.lease / 3)
        try:
            grant = self._take_turn(holder, timeout)
        except BaseException as error:
            self.renewer.cancel(holder)
            self.hooks.waited(self.name, self.clock.monotonic() - began, False)
            if not isinstance(error, LockError):
                self._leave(holder, error)
            raise
        lease.begin(grant, self.lease, self.max_hold)
        self._held[thread] = lease
        self.hooks.waited(self.name, self.clock.monotonic() - began, True)
        return lease

    def owner(self) -> str | None:
        """Who holds the lock now; None if it is free."""
        value: bytes | str | None = self.run(OWNER)
        return None if value is None else _text(value).split(":", 2)[2]

    def waiters(self) -> int:
        """How many living clients wait for the lock now."""
        count: int = self.run(WAITERS)
        return count

    def force_release(self, reason: str) -> bool:
        """Take the lock away from whoever holds it and give it to the next in line."""
        evicted: bytes | str | None = self.run(self.scripts.evict)
        if evicted is None:
            return False
        fence, _, owner = _text(evicted).split(":", 2)
        logger.warning(
            "lock %r was taken away from %s (fence %s): %s", self.name, owner, fence, reason
        )
        return True

    def run(self, script: Script, *args: str) -> Any:
        """Run one of the lock's scripts, twice if the first time brought no answer.

        That is harmless, since every script recognises what it has done before by the token.
        Raises `LockUnavailable`.
        """
        try:
            try:
                return self.wire.run(script, self.keys.all, args)
            except NO_ANSWER:
                return self.wire.run(script, self.keys.all, args)
        except RedisError as error:
            self.unavailable(error)

    def unavailable(self, error: RedisError) -> NoReturn:
        """Say that the server did not do what it was asked to."""
        raise LockUnavailable(f"no use of the server for lock {self.name!r}: {error}") from error

    def forget(self, lease: RedisLease) -> None:
        """Make a released lease unknown to its owning thread."""
        for thread, held in list(self._held.items()):
            if held is lease:
                del self._held[thread]

    def _take_turn(self, holder: str, timeout: float | None) -> Grant:
        steps = turn(
            holder,
            lease=self.lease,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.clock.monotonic,
        )
        wake_list = self.keys.wake(holder)
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

    def _pop(self, wake_list: str, seconds: float) -> bytes | None:
        try:
            return self.wire.pop(wake_list, seconds)
        except NO_ANSWER:
            # The message may be gone with the connection; the acquire that follows finds out.
            return None
        except RedisError as error:
            self.unavailable(error)

    def _leave(self, holder: str, error: BaseException) -> None:
        """Leave the queue, or give back what was granted meanwhile: the caller was interrupted."""
        waiter = f"{self._mode}{_ms(self.lease)}:{holder}"
        try:
            self.run(self.scripts.release, holder, "0", waiter)
        except LockUnavailable as problem:
            error.add_note(f"and then LockUnavailable: {problem}")


def _ms(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _is_alive(thread: threading.Thread) -> bool:
    try:
        return thread.is_alive()
    except RuntimeError:
        return False  # what Python 3.13 says of a dead thread that was not made by threading
