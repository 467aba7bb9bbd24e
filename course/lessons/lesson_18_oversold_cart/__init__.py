"""Lesson 18: two carts check, and then both take."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.plan import OWN, Check, Faults, Flaw, Plan, Shop, nothing_wrong
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Simulation
from course.simulator.table import TableServer

STOCK = {"lamp": 2, "mug": 1}
WANTED = {"A": {"lamp": 1, "mug": 1}, "B": {"mug": 1, "lamp": 1}}


def clients(simulation: Simulation, kind: Callable[..., Any]) -> None:
    """Let two buyers buy a lamp and the last mug each, in different orders."""
    shop, server = Shop(simulation), TableServer(simulation.world)
    for item, available in STOCK.items():
        server.preload("stock", item=item, available=available)
    simulation.given(Text(_("has %s lamps and %s mug"), *STOCK.values()), server=server.name)

    def buy(items: dict[str, int]) -> Any:
        return kind(server.connect(autocommit=False)).buy(items)

    for name, items in WANTED.items():
        shop.start(name, partial(buy, items))

    def compare() -> None:
        if len(shop.answers) < len(WANTED):
            words = _("a buyer waits forever")
            if server.waiting[1:]:
                words = _("A and B wait for each other's rows forever")
            shop.expect(False, Wrong.NOBODY_ENTERS, Text(words))
            return
        sold = sum(bool(answer) for answer in shop.answers.values())
        most = min(STOCK.values())
        oversold = Text(_("%s carts were sold, there was %s"), sold, most)
        shop.expect(sold <= most, Wrong.OVERSOLD, oversold)
        refused = Text(_("both were refused, though one could have had both"))
        shop.expect(sold > 0, Wrong.UNDERSOLD, refused)
        left = {item: row["available"] for item, row in server.committed("stock").items()}
        why = Text(_("%s sold of %s, and the stock is %s"), sold, STOCK, left)
        right = {item: count - sold for item, count in STOCK.items()}
        shop.expect(left == right, Wrong.BOOKS, why)

    simulation.world.on_end.append(compare)


PLAN = Plan(
    flaws=(
        Flaw(
            "both-check", Wrong.OVERSOLD, Faults.SWITCHES, OWN,
            breaks="before command 3 of A's run: switch B",
        ),
    ),
    checks=(
        Check({}, Faults.SWITCHES, (Wrong.OVERSOLD,)),
        Check({}, Faults.SWITCHES, tuple(Wrong), most=3),
    ),
    clients=clients,
    judge=nothing_wrong,
    methods=("buy",),
)  # fmt: skip
