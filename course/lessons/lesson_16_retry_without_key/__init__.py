"""Lesson 16: the client does not know whether it has ordered, and orders again."""

from collections.abc import Callable
from typing import Any

from course.clients import LOST, Check, nothing_wrong
from course.lesson import OWN, Flaw, Plan
from course.lessons.lesson_16_retry_without_key import cure
from course.lessons.lesson_16_retry_without_key.lock import Client
from course.shop_model import Shop
from course.simulator.history import Wrong
from course.simulator.simulation import Simulation


class Api:
    """The shop's API, as a client sees it."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def buy(self, key: str | None) -> None:
        """Place an order; the same key places it once."""
        orders = self._shop.orders

        def run() -> str:
            if key is not None and key in orders:
                return "200 the same order"
            orders.append(key or "without a key")
            return "201 an order"

        self._shop.call("shop", ("POST", "/orders", f"Idempotency-Key: {key}"), run)


def clients(simulation: Simulation, *, kind: Callable[..., Any] = Client) -> None:
    """Let a client place one order; a request or an answer may be lost."""
    shop = Shop(simulation)
    shop.start("A", lambda: kind(Api(shop)).place())

    def compare() -> None:
        why = f"the buyer wanted one order and has {len(shop.orders)}"
        shop.expect(len(shop.orders) == 1, Wrong.DOUBLED, why)

    simulation.world.on_end.append(compare)


PLAN = Plan(
    clients,
    flaws=(
        Flaw(
            "lost-answer",
            Wrong.DOUBLED,
            LOST,
            OWN,
            breaks="before command 1 of A's run: lose reply",
        ),
    ),
    checks=(Check({}, LOST, tuple(Wrong)),),
    judge=nothing_wrong,
    cure=cure.Client,
    methods=("place",),
)
