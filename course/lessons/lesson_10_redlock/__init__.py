"""Lesson 10: a pause, and a clock that jumps, after the majority has agreed."""

from collections.abc import Callable
from typing import Any

from course.plan import (
    LATE_WRITER,
    LEASES,
    ONE_ENTERS,
    PRODUCTION,
    TTL,
    Check,
    Checks,
    Faults,
    Flaw,
    Plan,
    add_clients,
    lease_argument,
)
from course.simulator.history import Text, Wrong, _
from course.simulator.redis_client import SimulatedRedis
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, Simulation

CLOCK_JUMP = FaultModel(
    frozenset({Act.CLOCK_JUMP}),
    targets=("redis-3",),
    seconds=(15.0,),
    victims=("B",),  # so that it happens when B comes, long after A got the lock
    most_faults=1,
)
NAMES = ("redis", "redis-2", "redis-3", "redis-4", "redis-5")
"""The first one has the usual name, so that a fault of "redis" hits one of the five."""

CUT_OFF = {"work": LATE_WRITER, "cut_off": (4, 5)}
MINORITY = {"gaps": (0.0, 0.1), "work": {"A": 9.0}, "cut_off": (1, 2, 3)}
"""A reaches two of five, which is not enough to enter."""


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    cut_off: tuple[int, ...] = (),
    gaps: tuple[float, ...] = (0.0, 4.0),
    writes: bool = True,
    ttl: int = TTL,
    enough: bool = False,
    **options: Any,
) -> None:
    """Add clients of five servers; A cannot reach those in `cut_off`, numbered from 1.

    With `enough`, the servers that each client reaches are enough for it to get the lock.
    """
    # No key to watch: one server's key does not tell whether a majority holds the lock.
    servers = [RedisServer(simulation.world, name=name, replicated=True) for name in NAMES]
    for server in [servers[number - 1] for number in cut_off]:
        server.cut_off.add("A")
        simulation.given(Text(_("cannot reach %s"), server.name), who="A")

    def make() -> Any:
        clients = [SimulatedRedis(server) for server in servers]
        return kind(clients, KEY, **lease_argument(kind, ttl))

    if enough:
        why = Text(_("a client reaches three of five servers, and cannot get the lock"))
        options["must_enter"] = (Wrong.NOBODY_ENTERS, why)
    add_clients(simulation, make, gaps=gaps, writes=writes, ttl=ttl, **options)


PLAN = Plan(
    flaws=(
        Flaw(
            "pause", Wrong.STALE_WRITE, Faults.LONG_PAUSE, PRODUCTION, {}, {"gaps": (0.0, 4.0)},
            breaks="before command 1 of A's work: pause 15 s",
        ),
        Flaw(
            "clock-jump", Wrong.STALE_WRITE, CLOCK_JUMP, PRODUCTION,
            CUT_OFF, {"work": LATE_WRITER, "gaps": (0.0, 4.0)},
            breaks="before command 1 of B's acquire: clock jump redis-3 15 s",
        ),
    ),
    checks=(
        Check({}, Faults.LONG_PAUSE, (Wrong.STALE_WRITE,), limit=60),
        Check(CUT_OFF, CLOCK_JUMP, (Wrong.STALE_WRITE,), limit=60),
        *(
            Check({"names": "A", "cut_off": gone, "enough": True}, Faults.NOTHING, ONE_ENTERS)
            for gone in ((1, 2), (4, 5))
        ),
        Check(MINORITY, Faults.NOTHING, (Wrong.TWO_HOLDERS,)),
        Check({"gaps": (0.0, 0.0)}, Faults.SWITCHES, ONE_ENTERS, limit=60),
        Checks.LATE_RELEASE,
        *LEASES,
    ),
    clients=clients,
    # The numbers of the grants come from no client's clock.
    quiet=({"gaps": (0.0, 0.1)}, {"gaps": (0.0, 0.1), "skew": {"A": 15.0}}),
)  # fmt: skip
