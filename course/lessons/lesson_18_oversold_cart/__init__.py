"""Lesson 18: two carts check, and then both take."""

from collections.abc import Callable
from functools import partial
from typing import Any

from course.clients import SWITCHES, Check, nothing_wrong
from course.lesson import OWN, Flaw, Plan
from course.lessons.lesson_18_oversold_cart import cure
from course.lessons.lesson_18_oversold_cart.lock import Cart
from course.shop_model import STOCK, Connection, Shop
from course.simulator.history import Wrong
from course.simulator.simulation import Simulation

WANTED = {"A": {"lamp": 1, "mug": 1}, "B": {"mug": 1, "lamp": 1}}


def clients(simulation: Simulation, *, kind: Callable[..., Any] = Cart) -> None:
    """Let two buyers buy a lamp and the last mug each, in different orders."""
    shop = Shop(simulation)
    simulation.given(f"has {STOCK['lamp']} lamps and {STOCK['mug']} mug", server="postgres")

    def buy(items: dict[str, int]) -> Any:
        return kind(Connection(shop)).buy(items)

    for name, items in WANTED.items():
        shop.start(name, partial(buy, items))

    def compare() -> None:
        if len(shop.answers) < len(WANTED):
            why = "A and B wait for each other's rows" if len(shop.waiting) > 1 else "a buyer waits"
            shop.expect(False, Wrong.NOBODY_ENTERS, f"{why} forever")
            return
        sold = sum(bool(answer) for answer in shop.answers.values())
        most = min(STOCK.values())
        shop.expect(sold <= most, Wrong.OVERSOLD, f"{sold} carts were sold, there was {most}")
        shop.expect(sold > 0, Wrong.UNDERSOLD, "both were refused, though one could have had both")
        left = {item: count - sold for item, count in STOCK.items()}
        why = f"{sold} sold of {STOCK}, and the stock is {shop.available}"
        shop.expect(shop.available == left, Wrong.BOOKS, why)

    simulation.world.on_end.append(compare)


PLAN = Plan(
    clients,
    flaws=(
        Flaw(
            "both-check",
            Wrong.OVERSOLD,
            SWITCHES,
            OWN,
            breaks="before command 3 of A's run: switch B",
        ),
    ),
    checks=(
        Check({}, SWITCHES, (Wrong.OVERSOLD,)),
        Check({}, SWITCHES, tuple(Wrong), most=3),
    ),
    judge=nothing_wrong,
    cure=cure.Cart,
    methods=("buy",),
)
