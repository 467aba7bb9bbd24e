"""Lesson 16: the client does not know whether it has ordered, and orders again."""

from collections.abc import Callable
from typing import Any

from course.plan import OWN, Check, Faults, Flaw, Plan, Shop, nothing_wrong
from course.simulator.history import Text, Wrong, _
from course.simulator.process import Server
from course.simulator.simulation import Simulation
from course.simulator.world import World


class Api(Server):
    """The shop's API, as a client sees it."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "shop")
        self.orders: list[str] = []

    def buy(self, key: str | None) -> None:
        """Place an order; the same key places it once."""

        def run() -> str:
            if key is not None and key in self.orders:
                return "200 the same order"
            self.orders.append(key or "without a key")
            return "201 an order"

        self.call(("POST", "/orders", f"Idempotency-Key: {key}"), run)


def clients(simulation: Simulation, kind: Callable[..., Any], *, names: str = "A") -> None:
    """Let each client place one order; a request or an answer may be lost."""
    shop = Shop(simulation)
    api = Api(simulation.world)

    def compare() -> None:
        why = Text(_("the buyer wanted one order and has %s"), len(api.orders))
        if len(names) > 1:
            why = Text(
                _("%s buyers wanted one order each and have %s"), len(names), len(api.orders)
            )
        shop.expect(len(api.orders) == len(names), Wrong.DOUBLED, why)

    for name in names:
        shop.start(name, lambda: kind(api).place())
    simulation.world.on_end.append(compare)


TWO = {"names": "AB"}

PLAN = Plan(
    flaws=(
        Flaw(
            "lost-answer", Wrong.DOUBLED, Faults.LOST, OWN,
            breaks="before command 1 of A's run: lose reply",
        ),
    ),
    checks=(Check({}, Faults.LOST, tuple(Wrong)), Check(TWO, Faults.LOST, tuple(Wrong), most=1)),
    clients=clients,
    judge=nothing_wrong,
    quiet=({}, TWO),
    methods=("place",),
)  # fmt: skip
