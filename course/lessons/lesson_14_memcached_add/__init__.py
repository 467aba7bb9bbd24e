"""Lesson 14: the cache needs its memory for something else."""

from collections.abc import Callable
from typing import Any

from course.plan import Check, Faults, Flaw, Plan, add_clients
from course.simulator.history import Wrong
from course.simulator.memcached_client import MemcachedServer, SimulatedMemcached
from course.simulator.schedule import Act, FaultModel
from course.simulator.simulation import KEY, Simulation

EVICTION = FaultModel(frozenset({Act.EVICT}), targets=("memcached",), most_faults=1)


def clients(simulation: Simulation, kind: Callable[..., Any]) -> None:
    """Add two clients."""
    server = MemcachedServer(simulation.world, lock_key=KEY)
    add_clients(simulation, lambda: kind(SimulatedMemcached(server), KEY))


PLAN = Plan(
    flaws=(
        Flaw(
            "eviction", Wrong.TWO_HOLDERS, EVICTION, "table-row",
            breaks="before command 1 of B's acquire: evict memcached",
        ),
    ),
    checks=(Check({}, Faults.SWITCHES, (Wrong.TWO_HOLDERS,)),),
    clients=clients,
    solution="memcached-add",
)  # fmt: skip
