"""The clients of a search: what they do, drawn from a seed."""

from functools import partial
from random import Random

from course.simulator import production
from course.simulator.lock_checks import LeaseChecks
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import Simulation
from locking import LockError
from locking.redis_lock import EVICT, SLICE, ask

MAX_IDLE = 0.25
"""Seconds. Waiters are woken when they get the lock: at once, and sooner than they would look."""

MAX_IDLE_AFTER_FAULT = SLICE + MAX_IDLE
"""Seconds after a fault: the one waiter that was woken may have died, and the others look when
their slice ends, or when the dead waiter has been silent for long enough."""

LEASES = (production.LEASE, production.LEASE, 4.0)
"""Seconds; different ones, so that a short lease can spoil a long one."""

OPERATED = 0.2
"""The share of runs in which an operator takes the lock from its holder."""

VISITOR = "Visitor"


def clients(simulation: Simulation, *, seed: int, replicated: bool, operated: bool) -> None:
    """Add a few clients; some acquire twice, and one may have a short time-out.

    If `operated`, an operator may take the lock from its holder. A visitor comes long after all
    others, and must be able to enter.
    """
    dice = Random(f"clients {seed}")
    simulation.world.random.seed(seed)
    server = RedisServer(simulation.world, lock_key=production.LOCK_KEY, replicated=replicated)
    checks = LeaseChecks(simulation.monitor, server)
    hasty = dice.choice("ABCD----")
    for name in "ABCD"[: dice.choice((2, 3, 3, 4))]:
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
        client.start(client.run)
    if operated and dice.random() < OPERATED:
        after = dice.uniform(0.0, 6.0)
        simulation.start("Operator", partial(_evict, simulation, server), after=after)
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
    visitor.start(visitor.run)


def _evict(simulation: Simulation, server: RedisServer) -> None:
    lock = production.make_lock(simulation, server, "Operator")
    try:
        ask(lock.server, EVICT, lock.name, lock.key)  # as `force_release` does, which also logs it
    except (LockError, KeyboardInterrupt) as problem:
        simulation.note("Operator", f"fails: {problem!r}")
