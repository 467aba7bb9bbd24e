"""The common part of the blocking and the asyncio Redis locks: settings, keys and names."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar, TypedDict

from locking.backends.redis_lease import MIN_LEASE, RedisLeaseState, ms, text
from locking.backends.redis_protocol import (
    MUTEX,
    TOKENS,
    AcquireSteps,
    Keys,
    Scripts,
    acquire_steps,
)
from locking.base import NO_HOOKS, SYSTEM_CLOCK, Capabilities, Clock, Held, Hooks, LockError

logger = logging.getLogger(__name__)

ANSWER_GRACE = 0.25
"""Seconds to wait for an answer past the deadline of an acquire: the last try is sent *at* the
deadline, and a healthy server across a network answers within this."""


class RedisLockSettings(TypedDict, total=False):
    """The settings of every kind of Redis lock; `RedisHandle` has the defaults."""

    lease: float
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    hooks: Hooks
    clock: Clock


class Remote:
    """A lock on its server: what a handle and its leases share.

    A lease refers to this and not to its handle, so that both end when the program drops them.
    """

    __slots__ = ("clock", "hooks", "keys", "name", "reentrant", "renewed", "scripts", "transport")

    def __init__(self, handle: RedisHandle, transport: Any, clock: Clock) -> None:
        self.name, self.hooks, self.keys = handle.name, handle.hooks, handle.keys
        self.scripts, self.renewed = handle.scripts, handle.renewed
        self.reentrant = handle.capabilities.reentrant
        self.transport = transport
        self.clock = clock

    def patience(self, give_up: float | None, blocked: float = 0.0) -> float | None:
        """Return how long to wait for an answer; None: as long as the client's time-out."""
        if give_up is None:
            return None
        return max(ANSWER_GRACE, give_up - self.clock.monotonic() - blocked)

    def may_repeat(self, give_up: float | None) -> bool:
        """Return whether there is time to send a command again that got no answer."""
        return give_up is None or self.clock.monotonic() < give_up

    def own_lease_in_the_way(self, leases: Iterable[Any], owner: object) -> bool:
        """Return whether the waiting thread or task itself holds the lock by another handle."""
        return self.reentrant and any(
            isinstance(lease, RedisLeaseState)
            and lease.owner_key is owner
            and lease.is_of(self.keys)
            and lease.remaining() > 0
            for lease in leases
        )


class RedisHandle:
    """A lock's name and settings, and what each acquisition derives from them."""

    kind = "lock"
    """The prefix of the keys; locks of different kinds may have the same name."""
    scripts: Scripts = MUTEX
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
        fair: bool = True,
        renew: bool = True,
        max_hold: float | None = None,
        owner: str | None = None,
        hooks: Hooks = NO_HOOKS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Store the settings; see `RedisLock`."""
        if not lease >= MIN_LEASE or (max_hold is not None and not max_hold >= MIN_LEASE):
            raise ValueError(
                f"lease ({lease} s) and max_hold ({max_hold} s) must be above zero: at least 1 ms"
            )
        self.name = name
        self.lease_seconds = lease if max_hold is None else min(lease, max_hold)
        self.max_hold = max_hold
        self.renewed = renew
        self.hooks = hooks
        self.keys = Keys.of(self.kind, name)
        self.remote = self.remote_class(self, transport, clock)
        self._mode = "f" if fair else "u"
        self._owner = owner
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
        return f"{TOKENS.new()}:{self._owner or TOKENS.process}"

    def acquire_steps(self, holder: str, timeout: float | None) -> AcquireSteps:
        """Start the steps of one acquisition."""
        return acquire_steps(
            holder,
            name=self.name,
            lease=self.lease_seconds,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.clock.monotonic,
        )

    def give_up_at(self, timeout: float | None) -> float | None:
        """Return when no answer is awaited any more; None: the client's time-outs decide."""
        return self.clock.monotonic() + timeout if timeout else None

    def abandon_args(self, holder: str) -> tuple[str, str, str]:
        """Return the release script's arguments for a waiter that was interrupted."""
        return holder, "0", f"{self._mode}{ms(self.lease_seconds)}:{holder}"

    def refuse_to_wait_for_itself(self, timeout: float | None) -> str:
        """Return a note for a wait that only this very thread or task can end.

        Raises LockError if the wait has no limit.
        """
        why = f"the caller itself holds {self.name!r} by another handle: use one handle"
        if timeout is None:
            raise LockError(f"{why}; this call would wait for ever")
        return why

    def owners_in(self, values: list[bytes | str]) -> list[str]:
        """Return the owners in a list of "fence:token:owner"; a foreign value as it is."""
        return [text(value).split(":", 2)[-1] for value in values]

    def holds(self, lease: RedisLeaseState, values: list[bytes | str]) -> bool:
        """Return whether a lease is among the holders "fence:token:owner"."""
        return any(text(value).partition(":")[2] == lease.holder for value in values)

    def log_eviction(self, evicted: list[bytes | str], reason: str) -> bool:
        """Log which owners lost the lock and why; return whether there were any."""
        for owner in self.owners_in(evicted):
            logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
        return bool(evicted)
