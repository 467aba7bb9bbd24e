"""Lesson 13: two workers refund one order, and no schedule makes them pay twice."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.plan import PRODUCTION, Check, Faults, Flaw, Plan, Reason, nothing_wrong, one_enters
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Run, Simulation
from course.simulator.table import TableServer

ORDER, AMOUNT = "order-7", 999


def clients(
    simulation: Simulation, kind: Callable[..., Any], *, others: tuple[str, ...] = ()
) -> None:
    """Add two workers that refund the same order, after one worker has refunded `others`."""
    server = TableServer(simulation.world)

    def refund_others() -> None:
        guard = kind(server.connect())
        for order in others:
            words = Text(_("refunds %s: %s"), order, guard.refund(order, AMOUNT))
            simulation.note("Before", words)

    def run(name: str) -> None:
        guard = kind(server.connect())
        simulation.monitor.asks(name)
        if guard.refund(ORDER, AMOUNT):
            simulation.monitor.enters(name)
            simulation.note(name, Text(_("pays the refund out; this stays so forever")))
        else:
            found = Text(_("finds the refund recorded, and pays nothing"))
            simulation.monitor.gives_up(name, found)

    def compare() -> None:
        for order in (*others, ORDER):
            found = [
                row
                for table in ("refund", "refund_log")
                for row in server.committed(table).values()
                if row.get("order_id") == order
            ]
            if {row.get("amount") for row in found} != {AMOUNT}:
                why = Text(_("the refund of %s in %s is not recorded"), AMOUNT, order)
                simulation.monitor.report(Wrong.BOOKS, why)

    if others:
        simulation.start("Before", refund_others)
    for name in "AB":
        simulation.start(name, partial(run, name), after=1.0 if others else 0.0)
    simulation.world.on_end.append(compare)


def refunded_once(run: Run) -> Reason:
    """Return why not exactly one of two workers paid the refund out, or why it is not recorded."""
    wrong = one_enters(run)
    return wrong if any(wrong) else nothing_wrong(run)


PLAN = Plan(
    flaws=(Flaw("double-refund", None, Faults.SWITCHES, PRODUCTION),),
    checks=(Check({}, Faults.SWITCHES, (Wrong.TWO_HOLDERS,)),),
    clients=clients,
    judge=refunded_once,
    quiet=({}, {"others": ("order-5", "order-6")}),
    solution="unique-index",
    methods=("refund",),
)
