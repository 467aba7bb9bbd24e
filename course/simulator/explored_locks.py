"""The locks that can be searched, with the roles of their clients and their guarantees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from course.simulator import production
from course.simulator.lock_checks import LeaseChecks
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import Simulation
from course.simulator.virtual_loop import run_asyncio
from locking.backends.redis import RedisLock
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_core import SLICE
from locking.terms import LockError

MAX_IDLE = 0.25
"""Seconds. Waiters are woken when they get the lock: at once, and sooner than they would look."""

MAX_IDLE_AFTER_FAULT = SLICE + MAX_IDLE
"""Seconds after a fault: the one waiter that was woken may have died, and the others look when
their slice ends, or when the dead waiter has been silent for long enough."""


@dataclass(frozen=True, slots=True)
class Role:
    """One way of acquiring a lock.

    `kind` and `settings` make its handle; `asyncio`: the asyncio lock that its client uses instead.
    """

    kind: type[RedisLock]
    settings: Mapping[str, Any] = field(default_factory=dict)
    asyncio: type[AsyncRedisLock] | None = None


@dataclass(frozen=True, slots=True)
class ExploredLock:
    """A lock to search.

    `roles` are its clients' roles, drawn at random; the `visitor` comes long after all others.
    """

    roles: tuple[Role, ...]
    visitor: Role
    fair: bool = True


def mutex(kind: type[RedisLock] = RedisLock, *, fair: bool = True) -> ExploredLock:
    """Return the exclusive lock."""
    role = Role(kind, {"fair": fair})
    return ExploredLock((role,), role, fair=fair)


def mixed(kind: type[RedisLock] = RedisLock) -> ExploredLock:
    """Return the exclusive lock with fair and unfair handles in one queue."""
    fair, unfair = Role(kind, {"fair": True}), Role(kind, {"fair": False})
    return ExploredLock((fair, unfair), fair, fair=False)


BLOCKING, ASYNCIO = Role(RedisLock), Role(RedisLock, asyncio=AsyncRedisLock)
EXPLORED_LOCKS = {
    "redis": mutex(),
    "redis-unfair": mutex(fair=False),
    "redis-mixed": mixed(),
    "redis-asyncio": ExploredLock((BLOCKING, ASYNCIO, ASYNCIO), BLOCKING),
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
    server = RedisServer(simulation.world, lock_key=production.LOCK_KEY, replicated=replicated)
    checks = LeaseChecks(simulation.monitor, server)
    hasty = dice.choice("ABCD----")
    for name in "ABCD"[: dice.choice((2, 3, 3, 4))]:
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
            checks=checks,
        )
        if role.asyncio is not None:
            client.start(partial(run_asyncio, client, role.asyncio))
        else:
            client.start(partial(client.run, role.kind, **role.settings))
    if operated and dice.random() < OPERATED:
        after = dice.uniform(0.0, 6.0)
        simulation.start("Operator", partial(_evict, simulation, target, server), after=after)
    visitor = production.Client(
        simulation,
        server,
        VISITOR,
        work=0.0,
        after=1_000.0,
        timeout=0.0,
        must_enter=True,
        checks=checks,
    )
    visitor.start(partial(visitor.run, target.visitor.kind, **target.visitor.settings))


VISITOR = "Visitor"

LEASES = (production.LEASE, production.LEASE, 4.0)
"""Seconds; different ones, so that a short lease can spoil a long one."""

OPERATED = 0.2
"""The share of runs in which an operator revokes the lock."""


def _evict(simulation: Simulation, target: ExploredLock, server: RedisServer) -> None:
    role = target.roles[0]
    lock = production.make_lock(simulation, server, "Operator", role.kind, **role.settings)
    try:
        lock.remote.read(lock.scripts.evict, list)  # as `force_release` does, which also logs it
    except (LockError, KeyboardInterrupt) as problem:
        simulation.note("Operator", f"fails: {problem!r}")
