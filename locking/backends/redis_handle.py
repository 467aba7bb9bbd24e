"""The common part of the blocking and the asyncio Redis locks: settings, keys and names."""

from __future__ import annotations

import logging
from typing import TypedDict

from locking.backends.redis_lease import ms, text
from locking.backends.redis_protocol import (
    MUTEX,
    TOKENS,
    AcquireSteps,
    Keys,
    Scripts,
    acquire_steps,
)
from locking.base import NO_HOOKS, SYSTEM_CLOCK, Clock, Hooks

logger = logging.getLogger(__name__)


class RedisLockSettings(TypedDict, total=False):
    """The settings of every kind of Redis lock; `RedisHandle` has the defaults."""

    lease: float
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    hooks: Hooks
    clock: Clock


class RedisHandle:
    """A lock's name and settings, and what each acquisition derives from them."""

    kind = "lock"
    """The prefix of the keys; locks of different kinds may have the same name."""
    scripts: Scripts = MUTEX

    def __init__(
        self,
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
        if lease <= 0 or (max_hold is not None and max_hold <= 0):
            raise ValueError(f"lease ({lease} s) and max_hold ({max_hold} s) must be above zero")
        self.name = name
        self.lease = lease if max_hold is None else min(lease, max_hold)
        self.max_hold = max_hold
        self.renewed = renew
        self.hooks = hooks
        self.clock = clock
        self.keys = Keys.of(self.kind, name)
        self._mode = "f" if fair else "u"
        self._owner = owner

    def new_holder(self) -> str:
        """Return the name of one acquisition: a unique token, and the owner for operators."""
        return f"{TOKENS.new()}:{self._owner or TOKENS.process}"

    def acquire_steps(self, holder: str, timeout: float | None) -> AcquireSteps:
        """Start the steps of one acquisition."""
        return acquire_steps(
            holder,
            lease=self.lease,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.clock.monotonic,
        )

    def abandon_args(self, holder: str) -> tuple[str, str, str]:
        """Return the release script's arguments for a waiter that was interrupted."""
        return holder, "0", f"{self._mode}{ms(self.lease)}:{holder}"

    def owners_in(self, values: list[bytes | str]) -> list[str]:
        """Return the owners in a list of "fence:token:owner"."""
        return [text(value).split(":", 2)[2] for value in values]

    def log_eviction(self, evicted: list[bytes | str], reason: str) -> bool:
        """Log which owners lost the lock and why; return whether there were any."""
        for owner in self.owners_in(evicted):
            logger.warning("lock %r was revoked from %s: %s", self.name, owner, reason)
        return bool(evicted)
