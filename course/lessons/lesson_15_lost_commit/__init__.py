"""Lesson 15: the connection is lost at COMMIT, and the buyer gets an answer all the same."""

from collections.abc import Callable
from typing import Any

from course.clients import LOST, Check, nothing_wrong
from course.lesson import OWN, Flaw, Plan
from course.lessons.lesson_15_lost_commit import cure
from course.lessons.lesson_15_lost_commit.lock import Sale
from course.shop_model import Connection, Shop
from course.simulator.history import Wrong
from course.simulator.simulation import Simulation


def clients(simulation: Simulation, *, kind: Callable[..., Any] = Sale) -> None:
    """Let a buyer buy once; a connection may be lost."""
    shop = Shop(simulation)
    shop.start("A", lambda: kind(lambda: Connection(shop)).buy("order-7"))

    def compare() -> None:
        told = shop.answers.get("A")
        ordered = "order-7" in shop.orders
        why = f"the buyer was told {told!r}; orders in the database: {len(shop.orders)}"
        shop.expect(told == ("sold" if ordered else "refused"), Wrong.FALSE_ANSWER, why)
        disturbed = simulation.world.processes["A"].faults
        shop.expect(ordered or bool(disturbed), Wrong.FALSE_ANSWER, "nobody could buy")

    simulation.world.on_end.append(compare)


PLAN = Plan(
    clients,
    flaws=(
        Flaw(
            "lost-answer",
            Wrong.FALSE_ANSWER,
            LOST,
            OWN,
            breaks="before command 2 of A's run: lose reply",
        ),
    ),
    checks=(Check({}, LOST, tuple(Wrong)),),
    judge=nothing_wrong,
    cure=cure.Sale,
    methods=("buy",),
)
