"""The Redis lock itself, for blocking and for asyncio clients: its settings and its operations.

The operations are steps (`redis_steps`); only `redis` and `redis_async` do input and output.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Any, ClassVar, TypedDict

from redis.exceptions import RedisError

from locking.backends.redis_lease import RedisLeaseState, note_own_lease
from locking.backends.redis_protocol import (
    MUTEX,
    TOKENS,
    AcquireSteps,
    Grant,
    Keys,
    LateGrant,
    Pause,
    Scripts,
    acquire_steps,
)
from locking.backends.redis_steps import Ask, Remote, Steps, ms, owners_in, text, unavailable
from locking.backends.redis_transport import Wait
from locking.base import (
    NO_HOOKS,
    SYSTEM_CLOCK,
    Capabilities,
    Clock,
    Held,
    Hooks,
    LockError,
    LockLost,
    LockTimeout,
    LockUnavailable,
)
from locking.terms import lease_length, time_limit

logger = logging.getLogger(__name__)


class RedisLockSettings(TypedDict, total=False):
    """The settings of every kind of Redis lock; `RedisHandle` has the defaults."""

    lease: float
    timeout: float | None
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    reentrant: bool
    replicas: int
    replica_timeout: float
    hooks: Hooks
    clock: Clock


class RedisHandle:
    """A lock's name and settings, and the steps of each of its operations."""

    kind = "lock"
    """The prefix of the keys; locks of different kinds may have the same name."""
    role = ""
    resumes: tuple[str, ...] = ()
    """The roles whose leases it can resume, if these are more than its own."""
    scripts: Scripts = MUTEX
    always_fair = False
    several = False
    """Whether one caller may hold several leases of the lock."""
    remote_class: ClassVar[type[Remote]] = Remote
    capabilities: ClassVar[Capabilities] = Capabilities(
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
        transport: Any,
        name: str,
        *,
        lease: float = 10.0,
        timeout: float | None = None,
        fair: bool = True,
        renew: bool = True,
        max_hold: float | None = None,
        owner: str | None = None,
        reentrant: bool = False,
        replicas: int = 0,
        replica_timeout: float = 0.1,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Store the settings; see `RedisLock`."""
        if self.always_fair and not fair:
            raise ValueError(f"{type(self).__name__} has one queue for all: it is always fair")
        if reentrant and (self.several or not owner):
            raise ValueError(
                f"{type(self).__name__} is acquired again by its owner: name one, and no semaphore"
            )
        self.name = name
        longest = inf if max_hold is None else lease_length(max_hold, inf)
        self.lease_seconds = min(lease_length(lease), longest)
        self.timeout = time_limit(timeout, True)
        self.max_hold = max_hold
        self.renewed = renew
        self.hooks = hooks
        self.keys = Keys.of(self.kind, name)
        self.remote = self.remote_class(self, transport, clock)
        self._mode = "f" if fair else "u"
        self._owner = owner
        self._reentrant = reentrant
        self._wait: Wait = (replicas, round(replica_timeout * 1000)) if replicas else None
        self._held = Held()

    @property
    def transport(self) -> Any:
        """What sends the lock's commands; tests replace it."""
        return self.remote.transport

    @transport.setter
    def transport(self, transport: Any) -> None:
        self.remote.transport = transport

    @property
    def clock(self) -> Clock:
        """The source of time."""
        return self.remote.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.remote.clock = clock

    def new_holder(self) -> str:
        """Return the name of one acquisition: a unique token, and the owner for operators."""
        return f"{self.role}{TOKENS.new()}:{self._owner or TOKENS.process}"

    def server_address(self) -> str:
        """See `Handle.server_address`."""
        return str(self.transport.address())

    # -- acquire

    def _limit(self, timeout: float | None, blocking: bool) -> float | None:
        if timeout is None and blocking:
            return self.timeout
        return time_limit(timeout, blocking)

    def _entered_again(self) -> Any:
        """Return the handle's lease, acquired once more, if it is reentrant and holds the lock."""
        held = self._held.live() if self._reentrant else None
        return held if held is not None and held.count_reentry() else None

    def _acquiring(
        self, lease: RedisLeaseState, caller: object, timeout: float | None
    ) -> Steps[Any]:
        """Acquire the lock for a new lease; return the lease."""
        monotonic = self.remote.clock.monotonic
        began = monotonic()
        if self.renewed:
            lease.keep(began + self.lease_seconds / 3)
        try:
            grant = yield from self._granting(lease, caller, timeout)
            if self._wait:
                grant = yield from self._replicating(lease.holder, grant, self._wait)
        except BaseException as error:
            lease.drop()
            self._held.failed(caller)
            self.hooks.waited(self.name, monotonic() - began, False)
            certain = isinstance(error, LockUnavailable | LockTimeout | GeneratorExit)
            if not certain or isinstance(error, LateGrant):
                yield from self._leaving(lease.holder, error)
            raise
        lease.begin(grant, self.max_hold)
        self._held.add(lease.acquirer(), lease)
        self.hooks.waited(self.name, monotonic() - began, True)
        return lease

    def acquire_steps(self, holder: str, timeout: float | None) -> AcquireSteps:
        """Start the steps of one acquisition."""
        return acquire_steps(
            holder,
            name=self.name,
            lease=self.lease_seconds,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.remote.clock.monotonic,
        )

    def _granting(
        self, lease: RedisLeaseState, caller: object, timeout: float | None
    ) -> Steps[Grant]:
        remote, wake_list = self.remote, ""
        # When no answer is awaited any more; None: the client's time-outs decide.
        give_up = remote.clock.monotonic() + timeout if timeout else None
        steps = self.acquire_steps(lease.holder, timeout)
        note: str | None = None
        step = next(steps)
        try:
            while True:
                result: Any = None
                try:
                    if isinstance(step, tuple):
                        result = yield from remote.ask(self.scripts.acquire, *step, give_up=give_up)
                    elif isinstance(step, Pause):
                        yield step
                    else:
                        if not wake_list:
                            wake_list = self.keys.wake_list(lease.holder)
                            note = note_own_lease(remote, caller, timeout)
                        result = yield from remote.pop(wake_list, step, give_up)
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
        finally:
            if wake_list:
                remote.forget(wake_list)

    def _replicating(self, holder: str, grant: Grant, wait: tuple[int, int]) -> Steps[Grant]:
        """Wait until enough replicas have the grant, so that a failover keeps it."""
        # WAIT covers only writes of its own connection, and another connection may have written the
        # grant. So extend the lease on this connection and wait for that write.
        sent_at = self.remote.clock.monotonic()
        try:
            ours, reached = yield Ask(
                self.scripts.renew, (holder, ms(self.lease_seconds), "1"), wait
            )
        except RedisError as error:
            unavailable(self.name, error)
        in_time = self.remote.clock.monotonic() < sent_at + self.lease_seconds
        if ours and reached >= wait[0] and in_time:
            return Grant(grant.fence, sent_at)
        yield from self.remote.ask(self.scripts.release, holder, str(grant.fence), "")
        late = "" if in_time else ", after the lease had expired"
        raise LockUnavailable(
            f"{reached} of {wait[0]} replicas have the grant of {self.name!r}{late}"
        )

    def _leaving(self, holder: str, error: BaseException) -> Steps[None]:
        """Leave the queue, or release a lock granted meanwhile, after an interruption."""
        entry = f"{self._mode}{ms(self.lease_seconds)}:{holder}"
        try:
            yield from self.remote.ask(self.scripts.release, holder, "0", entry)
        except LockError as problem:
            error.add_note(f"and then {type(problem).__name__}: {problem}")

    # -- the rest

    def _resuming(self, lease: RedisLeaseState, ident: str) -> Steps[Any]:
        """Take over the lease with that id, under the name of a new one; return the new one."""
        fence, _, holder = ident.partition(":")
        if not (fence.isdigit() and ":" in holder and holder.startswith(self.resumes or self.role)):
            raise ValueError(f"{ident!r} is not the id of a lease of {self!r}")
        sent_at = self.remote.clock.monotonic()
        args = (holder, lease.holder, ms(self.lease_seconds), fence)
        if not (yield from self.remote.ask(self.scripts.resume, *args)):
            raise LockLost(f"the lease {ident!r} of {self.name!r} has ended or was resumed before")
        lease.begin(Grant(int(fence), sent_at), self.max_hold)
        if self.renewed:
            lease.keep(sent_at + self.lease_seconds / 3)
        self._held.add(lease.acquirer(), lease)
        return lease

    def _owning(self, caller: object) -> Steps[bool]:
        lease = self._held.own(caller)
        if lease is None or lease.remaining() <= 0:
            return False
        values = yield from self.remote.ask(self.scripts.owner)
        return any(text(value).partition(":")[2] == lease.holder for value in values)

    def _listing_owners(self) -> Steps[list[str]]:
        return owners_in((yield from self.remote.ask(self.scripts.owner)))

    def _counting_waiters(self) -> Steps[int]:
        count: int = yield from self.remote.ask(self.scripts.waiters)
        return count

    def _evicting(self, reason: str) -> Steps[bool]:
        evicted = yield from self.remote.ask(self.scripts.evict)
        for owner in owners_in(evicted):
            logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
        return bool(evicted)
