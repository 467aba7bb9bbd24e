"""Lesson 18: two carts check, and then both take."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course.plan import OWN, Check, Faults, Flaw, Plan, Shop, nothing_wrong
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Simulation
from course.simulator.table import TableServer

STOCK = {"lamp": 2, "mug": 1}
AMPLE = {"stock": {"lamp": 2, "mug": 2}}
PAIRS = {"stock": {"lamp": 3, "mug": 1}, "lamps": 2}


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    stock: Mapping[str, int] = STOCK,
    lamps: int = 1,
) -> None:
    """Let two buyers buy lamps and a mug each, in different orders, from the stock."""
    shop, server = Shop(simulation), TableServer(simulation.world)
    wanted = {"A": {"lamp": lamps, "mug": 1}, "B": {"mug": 1, "lamp": lamps}}
    for item, available in stock.items():
        server.preload("stock", item=item, available=available)
    simulation.given(Text(_("has %s lamps and %s mug"), *stock.values()), server=server.name)

    def buy(items: dict[str, int]) -> Any:
        return kind(server.connect(autocommit=False)).buy(items)

    for name, items in wanted.items():
        shop.start(name, partial(buy, items))

    def compare() -> None:
        if len(shop.answers) < len(wanted):
            words = _("a buyer waits forever")
            if server.waiting[1:]:
                words = _("A and B wait for each other's rows forever")
            shop.expect(False, Wrong.NOBODY_ENTERS, Text(words))
            return
        sold = sum(bool(answer) for answer in shop.answers.values())
        most = min(available // wanted["A"][item] for item, available in stock.items())
        oversold = Text(_("%s carts were sold, there was %s"), sold, most)
        shop.expect(sold <= most, Wrong.OVERSOLD, oversold)
        refused = Text(_("both were refused, though one could have had both"))
        if sold and most == len(wanted):
            refused = Text(_("one was refused, though there was enough for both"))
        shop.expect(sold >= most, Wrong.UNDERSOLD, refused)
        left = {item: row["available"] for item, row in server.committed("stock").items()}
        why = Text(_("%s sold of %s, and the stock is %s"), sold, dict(stock), left)
        right = {item: count - sold * wanted["A"][item] for item, count in stock.items()}
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
        Check(AMPLE, Faults.SWITCHES, tuple(Wrong)),
        Check(PAIRS, Faults.SWITCHES, tuple(Wrong)),
    ),
    clients=clients,
    judge=nothing_wrong,
    quiet=({}, AMPLE, PAIRS),
    methods=("buy",),
)  # fmt: skip
