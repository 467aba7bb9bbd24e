"""Lesson 13: two workers refund one order, and no schedule makes them pay twice."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.plan import PRODUCTION, Check, Faults, Flaw, Plan, one_enters
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Simulation
from course.simulator.table import TableServer


def clients(simulation: Simulation, kind: Callable[..., Any]) -> None:
    """Add two workers that refund the same order."""
    server = TableServer(simulation.world)

    def run(name: str) -> None:
        guard = kind(server.connect())
        simulation.monitor.asks(name)
        if guard.refund("order-7", 999):
            simulation.monitor.enters(name)
            simulation.note(name, Text(_("pays the refund out; this stays so forever")))
        else:
            found = Text(_("finds the refund recorded, and pays nothing"))
            simulation.monitor.gives_up(name, found)

    for name in "AB":
        simulation.start(name, partial(run, name))


PLAN = Plan(
    flaws=(Flaw("double-refund", None, Faults.SWITCHES, PRODUCTION),),
    checks=(Check({}, Faults.SWITCHES, (Wrong.TWO_HOLDERS,)),),
    clients=clients,
    judge=one_enters,
    solution="unique-index",
    methods=("refund",),
)
