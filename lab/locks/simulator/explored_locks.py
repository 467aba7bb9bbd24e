"""The locks that can be searched, with the roles of their clients and their guarantees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from lab.locks.simulator import production
from lab.locks.simulator.history import Wrong
from lab.locks.simulator.monitor import Monitor
from lab.locks.simulator.redis_server import RedisServer
from lab.locks.simulator.shared_lock_monitor import SharedLockMonitor
from lab.locks.simulator.simulation import KEY, Simulation
from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import SLICE, Keys
from locking.backends.redis_shared import RedisReadLock, RedisSemaphore, RedisWriteLock

LONGEST_IDLE = 0.25
"""Seconds. Waiters are woken when they get the lock: at once, and sooner than they would look."""

LONGEST_IDLE_AFTER_FAULT = SLICE + LONGEST_IDLE
"""Seconds after a fault: the one waiter that was woken may have died, and the others look when
their slice ends, or when the dead waiter has been silent for long enough."""


@dataclass(frozen=True, slots=True)
class Role:
    """One way of acquiring a lock.

    `kind` and `settings` make its handle; `name` identifies it to the monitor; `writes`: whether
    it writes to the guarded resource.
    """

    kind: type[RedisLock]
    settings: tuple[tuple[str, Any], ...] = ()
    name: str = ""
    writes: bool = True

    def make(self, simulation: Simulation, server: RedisServer, owner: str) -> RedisLock:
        """Return a handle in the running process."""
        return production.make_lock(
            simulation, server, owner, kind=self.kind, **dict(self.settings)
        )


@dataclass(frozen=True, slots=True)
class ExploredLock:
    """A lock to search.

    `roles` are its clients' roles, drawn at random; `visitors` come long after all others and stay
    for a while, side by side; `more` is the number of clients beyond those of a mutex.
    """

    roles: tuple[Role, ...]
    visitors: tuple[Role, ...]
    more: int = 0
    fair: bool = True
    max_idle_after_fault: float = LONGEST_IDLE_AFTER_FAULT
    monitor: type[Monitor] = Monitor
    max_idle: float = LONGEST_IDLE

    @property
    def key(self) -> str:
        """The key that names the holders."""
        return Keys.of(self.roles[0].kind.kind, KEY).all[0]


def mutex(kind: type[RedisLock] = RedisLock, *, fair: bool = True) -> ExploredLock:
    """Return the exclusive lock."""
    role = Role(kind, (("fair", fair),))
    return ExploredLock((role,), (role,), fair=fair)


def mixed(kind: type[RedisLock] = RedisLock) -> ExploredLock:
    """Return the exclusive lock with fair and unfair handles in one queue."""
    fair, unfair = Role(kind, (("fair", True),)), Role(kind, (("fair", False),))
    return ExploredLock((fair, unfair), (fair,), fair=False)


def read_write(
    reader: type[RedisLock] = RedisReadLock, writer: type[RedisLock] = RedisWriteLock
) -> ExploredLock:
    """Return the read/write lock; readers do not write."""
    reading, writing = Role(reader, name="r", writes=False), Role(writer, name="w")
    return ExploredLock((reading, reading, writing), (writing,), more=1, monitor=SharedLockMonitor)


def semaphore(kind: type[RedisLock] = RedisSemaphore, permits: int = 2) -> ExploredLock:
    """Return the semaphore; no client writes, because a fence does not order concurrent holders."""
    role = Role(kind, (("permits", permits),), f"s{permits}", writes=False)
    return ExploredLock((role,), (role,) * permits, more=permits, monitor=SharedLockMonitor)


EXPLORED_LOCKS = {
    "redis": mutex(),
    "redis-unfair": mutex(fair=False),
    "redis-mixed": mixed(),
    "redis-rw": read_write(),
    "redis-semaphore": semaphore(),
}
"""The choices of `explore --lock`."""


def clients(simulation: Simulation, *, seed: int, target: ExploredLock, replicated: bool) -> None:
    """Add a few clients; some acquire twice, and one may have a short timeout."""
    dice = Random(f"clients {seed}")
    simulation.world.random.seed(seed)
    server = simulation.redis(key=target.key, replicated=replicated)
    hasty = dice.choice("ABCD----")
    for name in "ABCDEFGH"[: dice.choice((2, 3, 3, 4)) + target.more]:
        role = target.roles[0] if len(target.roles) == 1 else dice.choice(target.roles)
        production.client(
            simulation,
            server,
            name,
            make=role.make,
            role=role.name,
            timeout=dice.choice((0.0, 1.0, 5.0)) if name == hasty else production.LONG_TIMEOUT,
            work=dice.choice((0.0, 0.5, 2.0, 4.0, 8.0)),
            after=dice.choice((0.0, 0.0, 0.01, 1.0)),
            rounds=dice.choice((1, 1, 2)),
            writes=role.writes,
        )
    for place, role in enumerate(target.visitors):
        name = VISITOR + str(place + 1) * bool(place)
        visit = partial(_visit, simulation, name, role, partial(role.make, simulation, server))
        simulation.start(name, visit, after=1_000.0 + place)


VISITOR = "Visitor"


def _visit(simulation: Simulation, name: str, role: Role, make: Callable[[str], RedisLock]) -> None:
    """Acquire long after all others; a client that cannot enter then never can."""
    lock = make(name)
    simulation.monitor.asks(name, role.name)
    lease = simulation.attempt(name, lambda: lock.acquire(0.0))
    if lease is not None:
        production.hold(
            simulation, name, lease, work=0.0 if role.writes else 5.0, writes=role.writes
        )
    elif not simulation.world.me().disturbed:
        why = "nobody holds the lock, and long afterwards it is still taken"
        simulation.monitor.report(Wrong.NOBODY_ENTERS, why, name)
