"""What the blocking and the asyncio handle of a Redis lock have in common: all but the waiting."""

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
    """The settings of every kind of Redis lock, with their defaults in `RedisHandle`."""

    lease: float
    fair: bool
    renew: bool
    max_hold: float | None
    owner: str | None
    hooks: Hooks
    clock: Clock


class RedisHandle:
    """A lock's name, its settings, and what follows from them for each acquisition."""

    kind = "lock"
    """The first word of its keys: locks of different kinds may have the same name."""
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
        """Settle what `RedisLock` describes."""
        if lease <= 0 or (max_hold is not None and max_hold <= 0):
            raise ValueError(f"a lease of {lease} s, held for at most {max_hold} s, has no length")
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
        """Name one acquisition: a token that nobody else has, and who we are, for people."""
        return f"{TOKENS.new()}:{self._owner or TOKENS.process}"

    def acquire_steps(self, holder: str, timeout: float | None) -> AcquireSteps:
        """Begin to wait for the lock's turn."""
        return acquire_steps(
            holder,
            lease=self.lease,
            mode=self._mode,
            timeout=timeout,
            monotonic=self.clock.monotonic,
        )

    def abandon_args(self, holder: str) -> tuple[str, str, str]:
        """Arguments for the release script of one who was interrupted while waiting."""
        return holder, "0", f"{self._mode}{ms(self.lease)}:{holder}"

    def owners_in(self, values: list[bytes | str]) -> list[str]:
        """The owners' own words, of a list of "fence:token:owner"."""
        return [text(value).split(":", 2)[2] for value in values]

    def log_eviction(self, evicted: list[bytes | str], reason: str) -> bool:
        """Say in the log who lost the lock, and why; whether somebody did."""
        for owner in self.owners_in(evicted):
            logger.warning("lock %r was taken away from %s: %s", self.name, owner, reason)
        return bool(evicted)
