"""Lesson 11: a slow holder loses its row, a dead one keeps it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course.lessons.lesson_11_table_row.lock import clean
from course.plan import (
    CRASH,
    CRASH_OR_SWITCH,
    NOTHING,
    ONE_ENTERS,
    TTL,
    Check,
    Flaw,
    Plan,
    two_clients,
)
from course.simulator.history import Wrong
from course.simulator.simulation import KEY, Simulation
from course.simulator.table import TableServer

SLOW = {"A": 20.0}


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    work: Mapping[str, float] | None = None,
    cleaner: bool = False,
    visitor: bool = False,
    forgets: str = "",
) -> None:
    """Add two clients; the one that `forgets` never deletes its row."""
    server = TableServer(simulation.world)
    two_clients(simulation, lambda: kind(server.connect(), KEY), work=work, forgets=forgets)
    if cleaner:
        simulation.start("Cleaner", partial(_clean, simulation, server))
    if visitor:
        simulation.visitor(lambda: kind(server.connect(), KEY))


def _clean(simulation: Simulation, server: TableServer) -> None:
    connection = server.connect()
    for _ in range(4):
        simulation.world.sleep(5.0)
        clean(connection, limit=TTL)


PLAN = Plan(
    flaws=(
        Flaw(
            "slow-holder", Wrong.TWO_HOLDERS, NOTHING, "row-lock",
            {"work": SLOW, "cleaner": True}, {"work": SLOW},
        ),
        Flaw(
            "no-cleaner", Wrong.NOBODY_ENTERS, CRASH, "row-lock", {"visitor": True}, {},
            breaks="before command 1 of A's release: crash",
        ),
    ),
    checks=(
        Check({"work": SLOW, "cleaner": True}, NOTHING, ONE_ENTERS),
        Check({}, CRASH_OR_SWITCH, ONE_ENTERS),
    ),
    clients=clients,
)  # fmt: skip
