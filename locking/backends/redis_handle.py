"""The common part of the blocking and the asyncio Redis locks: settings, keys and names."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import inf
from typing import Any, ClassVar, TypedDict

from redis.exceptions import RedisError

from locking.backends.redis_lease import RedisLeaseState, ms, text, unavailable
from locking.backends.redis_protocol import (
    MUTEX,
    TOKENS,
    AcquireSteps,
    Keys,
    Scripts,
    acquire_steps,
)
from locking.backends.redis_transport import NO_ANSWER
from locking.base import NO_HOOKS, SYSTEM_CLOCK, Capabilities, Clock, Held, Hooks, LockError
from locking.terms import lease_length

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

    def after_pop(self, error: RedisError, give_up: float | None) -> None:
        """Let the next acquire step find out what a lost answer was, if there is time for one."""
        if not (isinstance(error, NO_ANSWER) and self.may_repeat(give_up)):
            unavailable(self.name, error)

    def note_own_lease(
        self, leases: Iterable[Any], owner: object, timeout: float | None
    ) -> str | None:
        """Return a note for a wait for a lease of the waiting thread or task; None if it has none.

        Raises LockError if that lease never ends and the wait has no limit.
        """
        for lease in leases if self.reentrant else ():
            if (
                isinstance(lease, RedisLeaseState)
                and lease.token is not None  # otherwise it waits as well
                and lease.owner() is owner
                and lease.is_of(self.keys)
                and lease.remaining() > 0
            ):
                why = f"the caller itself holds {self.name!r} by another handle: use one handle"
                if timeout is None and lease.never_ends():
                    raise LockError(f"{why}; this call would wait for ever")
                return why
        return None


class RedisHandle:
    """A lock's name and settings, and what each acquisition derives from them."""

    kind = "lock"
    """The prefix of the keys; locks of different kinds may have the same name."""
    scripts: Scripts = MUTEX
    always_fair = False
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
        if self.always_fair and not fair:
            raise ValueError(f"{type(self).__name__} has one queue for all: it is always fair")
        self.name = name
        longest = inf if max_hold is None else lease_length(max_hold, inf)
        self.lease_seconds = min(lease_length(lease), longest)
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
            monotonic=self.remote.clock.monotonic,
        )

    def give_up_at(self, timeout: float | None) -> float | None:
        """Return when no answer is awaited any more; None: the client's time-outs decide."""
        return self.remote.clock.monotonic() + timeout if timeout else None

    def abandon_args(self, holder: str) -> tuple[str, str, str]:
        """Return the release script's arguments for a waiter that was interrupted."""
        return holder, "0", f"{self._mode}{ms(self.lease_seconds)}:{holder}"

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
