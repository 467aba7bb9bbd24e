"""Simulated runs, and how to find things in them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.tests.model_shop import clock
from loadtest.tests.simulated_run import Simulation
from loadtest.tests.simulated_world import SALE, Line, World

SECOND = 1_000_000

Plant = Callable[[World], object]
"""Damages a run, so that a property must fail."""


def plants_of(module: Mapping[str, Any]) -> dict[str, Plant]:
    """The functions that are named for a property: `p14_sold_late` is "P14: sold late"."""
    named = {re.sub(r"^p(\d+)_", r"P\1: ", name): value for name, value in module.items()}
    return {name.replace("_", " "): plant for name, plant in named.items() if ": " in name}


def orders_with(**values: Any) -> Plant:
    """Give all orders these values."""

    def plant(world: World) -> None:
        for order in world.of(s.Order):
            world.change(order, **values)

    return plant


@cache
def _busy_run(seed: int) -> bytes:
    run = Simulation(Random(seed), stock=60, limit=4, clients=60, trouble=0.1).run()
    return pickle.dumps(run)  # copied five times as fast as by deepcopy


def busy_run(seed: int) -> World:
    """A run in which everything happens: carts, parts, late payments, expiry, peeping."""
    world: World = pickle.loads(_busy_run(seed))
    return world


def sold_out_run(seed: int) -> World:
    """Four units sold to twenty buyers without trouble: every rule is at its strictest."""
    random = Random(seed)
    return Simulation(random, stock=4, limit=1, clients=20, trouble=0, returns=False).run()


# Chosen so that each has what the plants need.
SEEDS = (3, 7)


def event(world: World, *names: str) -> s.Event:
    return next(each for each in world.of(s.Event) if each.name in names)


def lines_of(world: World, order: str) -> list[s.Order]:
    return [each for each in world.of(s.Order) if each.id == order]


def order_in(world: World, *statuses: str, **wanted: Any) -> s.Order:
    """An order of one line."""
    return next(
        each
        for each in world.of(s.Order)
        if each.status in statuses
        and len(lines_of(world, each.id)) == 1
        and all(getattr(each, name) == value for name, value in wanted.items())
    )


def sold_in(world: World) -> s.Order:
    """An order of one line that holds units of the first sale."""
    return order_in(world, "paid", "awaiting_payment", sale=SALE)


def cart_in(world: World, *statuses: str) -> list[s.Order]:
    """The lines of a cart of which nothing was given back in parts."""
    parts = {each.order for each in world.of(s.Event) if each.name.startswith("part_")}
    orders = (o.id for o in world.of(s.Order) if o.status in statuses and o.id not in parts)
    return next(lines for lines in (lines_of(world, each) for each in orders) if len(lines) > 1)


def reservation_of(world: World, order: s.Order) -> s.Reservation:
    return next(each for each in world.of(s.Reservation) if each.id == order.reservation)


def change_ledger(world: World, payment: s.Payment, **values: Any) -> None:
    world.ledger[world.ledger.index(payment)] = replace(payment, **values)


def answer(world: World, op: str, status: int, /, **shown: Any) -> tuple[Line, dict[str, Any]]:
    """An answer that shows an order like this, and what it shows."""
    for _, end in world.calls(op):
        found = end.values.get("shown")
        if end.values["status"] == status and found and shown.items() <= found.items():
            return end, found
    raise LookupError(op)


def tick_of(microseconds: int) -> int:
    return (microseconds - clock(0)) // SECOND
