"""Lesson 12: no row, no lock; and a transaction that nobody ends."""

from collections.abc import Callable
from typing import Any

from course.plan import ONE_ENTERS, Check, Faults, Flaw, Plan, add_clients
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import KEY, Simulation
from course.simulator.table import TableServer


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, row_exists: bool = True, **options: Any
) -> None:
    """Add clients, which lock a row that exists or does not."""
    server = TableServer(simulation.world)
    if row_exists:
        server.preload("lock_row", name=KEY, taken_at=0.0)
    else:
        simulation.given(Text(_("has no row named %s"), KEY), server=server.name)
    add_clients(simulation, lambda: kind(server.connect(autocommit=False), KEY), **options)


PLAN = Plan(
    flaws=(
        Flaw(
            "no-row", Wrong.TWO_HOLDERS, Faults.NOTHING, "unique-index", {"row_exists": False}, {}
        ),
        Flaw(
            "forgotten", Wrong.NOBODY_ENTERS, Faults.NOTHING, "table-row",
            {"forgets": "A"}, {"forgets": "A", "cleaner": True},
        ),
    ),
    checks=(
        Check({"row_exists": False, "visitor": True}, Faults.CRASH_OR_SWITCH, ONE_ENTERS),
        Check({"visitor": True}, Faults.CRASH_OR_SWITCH, ONE_ENTERS),
    ),
    clients=clients,
    quiet=({}, {"row_exists": False}),
)  # fmt: skip
