"""The locks that can be searched, with the roles of their clients and their guarantees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from course.simulator import production
from course.simulator.lock_checks import LeaseChecks, SharedLockMonitor
from course.simulator.monitor import Monitor
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY, Simulation
from course.simulator.virtual_loop import run_asyncio
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_core import SLICE
from locking.backends.redis_protocol import keys_of
from locking.backends.redis_shared import RedisReadLock, RedisSemaphore, RedisWriteLock
from locking.terms import LockError

MAX_IDLE = 0.25
"""Seconds. Waiters are woken when they get the lock: at once, and sooner than they would look."""

MAX_IDLE_AFTER_FAULT = SLICE + MAX_IDLE
"""Seconds after a fault: the one waiter that was woken may have died, and the others look when
their slice ends, or when the dead waiter has been silent for long enough."""


@dataclass(frozen=True, slots=True)
class Role:
    """One way of acquiring a lock.

    `kind` and `settings` make its handle; `name` identifies it to the monitor; `writes`: whether
    it writes to the guarded resource; `asyncio`: whether its client uses the asyncio lock instead.
    """

    kind: type[RedisLock]
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    writes: bool = True
    asyncio: type[AsyncRedisLock] | None = None


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
    monitor: type[Monitor] = Monitor

    @property
    def key(self) -> str:
        """The key that names the holders."""
        return keys_of(self.roles[0].kind.kind, KEY)[0]


def mutex(kind: type[RedisLock] = RedisLock, *, fair: bool = True) -> ExploredLock:
    """Return the exclusive lock."""
    role = Role(kind, {"fair": fair})
    return ExploredLock((role,), (role,), fair=fair)


def mixed(kind: type[RedisLock] = RedisLock) -> ExploredLock:
    """Return the exclusive lock with fair and unfair handles in one queue."""
    fair, unfair = Role(kind, {"fair": True}), Role(kind, {"fair": False})
    return ExploredLock((fair, unfair), (fair,), fair=False)


def read_write(
    reader: type[RedisLock] = RedisReadLock, writer: type[RedisLock] = RedisWriteLock
) -> ExploredLock:
    """Return the read/write lock; readers do not write."""
    reading, writing = Role(reader, name="r", writes=False), Role(writer, name="w")
    return ExploredLock((reading, reading, writing), (writing,), more=1, monitor=SharedLockMonitor)


def semaphore(kind: type[RedisLock] = RedisSemaphore, permits: int = 3) -> ExploredLock:
    """Return the semaphore; no client writes, because a fence does not order concurrent holders."""
    one = Role(kind, {"permits": permits}, f"s{permits}", writes=False)
    two = Role(kind, {"permits": permits, "take": 2}, f"s{permits}x2", writes=False)
    return ExploredLock((one, two), (one,) * permits, more=permits, monitor=SharedLockMonitor)


BLOCKING, ASYNCIO = Role(RedisLock), Role(RedisLock, asyncio=AsyncRedisLock)
EXPLORED_LOCKS = {
    "redis": mutex(),
    "redis-unfair": mutex(fair=False),
    "redis-mixed": mixed(),
    "redis-asyncio": ExploredLock((BLOCKING, ASYNCIO, ASYNCIO), (BLOCKING,)),
    "redis-rw": read_write(),
    "redis-semaphore": semaphore(),
}
"""The choices of `explore --lock`."""


def clients(
    simulation: Simulation,
    *,
    seed: int,
    target: ExploredLock,
    replicated: bool,
    operated: bool,
) -> None:
    """Add a few clients; some acquire twice, and one may have a short timeout.

    If `operated`, an operator may revoke the lock.
    """
    dice = Random(f"clients {seed}")
    simulation.world.random.seed(seed)
    server = RedisServer(simulation.world, lock_key=target.key, replicated=replicated)
    checks = LeaseChecks(simulation.monitor, server)
    hasty = dice.choice("ABCD----")
    for name in "ABCDEFGH"[: dice.choice((2, 3, 3, 4)) + target.more]:
        role = target.roles[0] if len(target.roles) == 1 else dice.choice(target.roles)
        client = production.Client(
            simulation,
            server,
            name,
            lease=dice.choice(LEASES),
            timeout=dice.choice((0.0, 1.0, 5.0)) if name == hasty else production.LONG_TIMEOUT,
            work=dice.choice((0.0, 0.5, 2.0, 4.0, 8.0)),
            extension=dice.choice((0.0, 0.0, 2.0, 6.0)),
            after=dice.choice((0.0, 0.0, 0.01, 1.0)),
            rounds=dice.choice((1, 1, 2)),
            hands_on=Random(f"hands on {seed} {name}").random() < HANDED_ON,
            writes=role.writes,
            role=role.name,
            checks=checks,
        )
        if role.asyncio is not None:
            client.start(partial(run_asyncio, client, role.asyncio))
        else:
            client.start(partial(client.run, role.kind, **role.settings))
    if operated and dice.random() < OPERATED:
        after = dice.uniform(0.0, 6.0)
        simulation.start("Operator", partial(_evict, simulation, target, server), after=after)
    for place, role in enumerate(target.visitors):
        client = production.Client(
            simulation,
            server,
            VISITOR + str(place + 1) * bool(place),
            work=0.0 if role.writes else 5.0,
            after=1_000.0 + place,
            timeout=0.0,
            must_enter=True,
            writes=role.writes,
            role=role.name,
            checks=checks,
        )
        client.start(partial(client.run, role.kind, **role.settings))


VISITOR = "Visitor"

LEASES = (production.LEASE, production.LEASE, 4.0)
"""Seconds; different ones, so that a short lease can spoil a long one."""

HANDED_ON = 0.2
"""The share of clients that hand their leases on and resume them by their ids."""

OPERATED = 0.2
"""The share of runs in which an operator revokes the lock."""


def _evict(simulation: Simulation, target: ExploredLock, server: RedisServer) -> None:
    role = target.roles[0]
    lock = production.make_lock(simulation, server, "Operator", role.kind, **role.settings)
    try:
        lock.remote.read(lock.scripts.evict, list)  # as `force_release` does, which also logs it
    except (LockError, KeyboardInterrupt) as problem:
        simulation.note("Operator", f"fails: {problem!r}")
