"""Lesson 11: a slow holder loses its row, a dead one keeps it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.lessons.lesson_11_table_row.lock import clean
from course.plan import ONE_ENTERS, TTL, Check, Faults, Flaw, Plan, add_clients
from course.simulator.history import Wrong
from course.simulator.simulation import KEY, Simulation
from course.simulator.table import TableServer

SLOW = {"A": 20.0}


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    cleaner: bool = False,
    **options: Any,
) -> None:
    """Add clients, and perhaps the job that deletes old rows."""
    server = TableServer(simulation.world)
    add_clients(simulation, lambda: kind(server.connect(), KEY), **options)
    if cleaner:
        simulation.start("Cleaner", partial(_clean, simulation, server))


def _clean(simulation: Simulation, server: TableServer) -> None:
    connection = server.connect()
    for _ in range(4):
        simulation.world.sleep(5.0)
        clean(connection, limit=TTL)


PLAN = Plan(
    flaws=(
        Flaw(
            "slow-holder", Wrong.TWO_HOLDERS, Faults.NOTHING, "row-lock",
            {"work": SLOW, "cleaner": True}, {"work": SLOW},
        ),
        Flaw(
            "no-cleaner", Wrong.NOBODY_ENTERS, Faults.CRASH, "row-lock", {"visitor": True}, {},
            breaks="before command 1 of A's release: crash",
        ),
    ),
    checks=(
        Check({"work": SLOW, "cleaner": True}, Faults.NOTHING, ONE_ENTERS),
        Check({"visitor": True}, Faults.CRASH_OR_SWITCH, ONE_ENTERS),
        Check({"visitor": True, "cleaner": True}, Faults.CRASH_OR_SWITCH, ONE_ENTERS),
    ),
    clients=clients,
)  # fmt: skip
