"""Lesson 15: the connection is lost at COMMIT, and the buyer gets an answer all the same."""

from collections.abc import Callable
from typing import Any

from course.plan import OWN, Check, Faults, Flaw, Plan, Shop, nothing_wrong
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Simulation
from course.simulator.table import TableServer

KEY = "order-7"


def clients(simulation: Simulation, kind: Callable[..., Any]) -> None:
    """Let a buyer buy once; a connection may be lost."""
    shop, server = Shop(simulation), TableServer(simulation.world)

    def run() -> Any:
        return kind(lambda: server.connect(autocommit=False)).buy(KEY)

    def compare() -> None:
        answer, orders = shop.answers.get("A"), server.committed("orders")
        faults = simulation.world.processes["A"].faults
        gave_up = answer is None and faults > 1  # the lookup failed, too: the buyer got no answer
        right = gave_up or answer == ("sold" if orders else "refused")
        why = Text(
            _("the buyer was told %s; orders in the database: %s"), repr(answer), len(orders)
        )
        shop.expect(right, Wrong.FALSE_ANSWER, why)
        strange = Text(_("the buyer ordered once, as %s, and the database has %s"), KEY, [*orders])
        shop.expect({*orders} <= {KEY}, Wrong.DOUBLED, strange)
        shop.expect(bool(orders or faults), Wrong.FALSE_ANSWER, Text(_("nobody could buy")))

    shop.start("A", run)
    simulation.world.on_end.append(compare)


PLAN = Plan(
    flaws=(
        Flaw(
            "lost-answer", Wrong.FALSE_ANSWER, Faults.LOST, OWN,
            breaks="before command 2 of A's run: lose reply",
        ),
    ),
    checks=(Check({}, Faults.LOST, tuple(Wrong)),),
    clients=clients,
    judge=nothing_wrong,
    methods=("buy",),
)  # fmt: skip
