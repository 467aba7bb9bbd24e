"""Lesson 10: a pause, and a clock that jumps, after the majority has agreed."""

from collections.abc import Callable
from typing import Any

from course.plan import LATE_WRITER, PRODUCTION, Check, Faults, Flaw, Plan, add_clients
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


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    cut_off: tuple[int, ...] = (),
    gaps: tuple[float, ...] = (0.0, 4.0),
    writes: bool = True,
    **options: Any,
) -> None:
    """Add clients of five servers; A cannot reach those in `cut_off`, numbered from 1."""
    # No key to watch: one server's key does not tell whether a majority holds the lock.
    servers = [RedisServer(simulation.world, name=name, replicated=True) for name in NAMES]
    for server in [servers[number - 1] for number in cut_off]:
        server.cut_off.add("A")
        simulation.given(Text(_("cannot reach %s"), server.name), who="A")

    def make() -> Any:
        return kind([SimulatedRedis(server) for server in servers], KEY)

    add_clients(simulation, make, gaps=gaps, writes=writes, **options)


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
    ),
    clients=clients,
    quiet={"gaps": (0.0, 0.1)},
)  # fmt: skip
