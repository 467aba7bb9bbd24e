"""Violations of P1 to P11, planted in what a sold-out run left behind."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.tests.busy_run import change_ledger, lines_of
from loadtest.tests.simulated_world import ITEM, World


def order_of_a_refused_key(world: World) -> None:
    key = world.call(world.end, world.end + 1, "order", 409, "sold_out")
    world.copy(world.order, id="o99", key=key, reservation="99")


def order_given_to_another_buyer(world: World) -> None:
    buyer = world.buyer_of(world.order)
    world.change(world.order, buyer="another")
    key = world.call(1, 2, "order", 201, order="o99", buyer=buyer)
    world.copy(world.order, id="o99", key=key, reservation="99", buyer="a third")


def refused_while_there_was_stock(world: World) -> None:
    for line in world.lines:
        line.time += 10
    world.call(1, 2, "order", 409, "sold_out")


def served_after_sold_out(world: World) -> None:
    key = world.call(world.end + 5, world.end + 6, "order", 201, order="o99")
    world.call(world.end + 1, world.end + 2, "order", 409, "sold_out")
    world.copy(world.order, id="o99", key=key, reservation="99")


def refunded_twice(world: World) -> None:
    world.ledger += [s.Payment(f"r{n}", world.order.id, "refund", 999) for n in range(2)]


def paid_and_never_charged(world: World) -> None:
    world.change(lines_of(world, world.ledger[0].order)[0], status="paid")
    del world.ledger[0]


def money_of_a_cancelled_order_kept(world: World) -> None:
    world.change(lines_of(world, world.ledger[0].order)[0], status="cancelled")


def refund_never_said_done(world: World) -> None:
    world.change(lines_of(world, world.ledger[0].order)[0], status="refund_pending")
    paid = world.ledger[0]
    world.ledger.append(replace(paid, id="back", operation="refund"))


PLANTS: dict[str, Callable[[World], object]] = {
    "P1: more live than total": lambda w: w.change(w.item, held=w.item.held + 1),
    "P1: below zero during the run": lambda w: w.during.append(
        (1, [s.Item(ITEM, 4, -1, 4, 1, -1)])
    ),
    "P2: ledger forgotten": lambda w: w.change(w.item, ledger_sum=w.item.ledger_sum + 1),
    "P2: restock without movement": lambda w: w.change(
        w.item, total=w.item.total + 5, available=w.item.available + 5
    ),
    "P2: stock restored twice": lambda w: w.change(
        w.item, available=w.item.available + 1, ledger_sum=w.item.ledger_sum + 1
    ),
    "P2: reservation lost": lambda w: w.rows.remove(w.of(s.Reservation)[0]),
    "P3: order lost": lambda w: w.rows.remove(w.order),
    "P3: order for another quantity": lambda w: w.change(w.order, quantity=w.order.quantity + 1),
    "P4: order nobody sent": lambda w: w.copy(w.order, id="o99", key="k99", reservation="99"),
    "P4: order of a refused key": order_of_a_refused_key,
    "P4: reservation without an order": lambda w: w.copy(
        w.of(s.Reservation)[0], id="99", key="k99"
    ),
    "P5: second order for a key": lambda w: w.copy(w.order, id="o99", reservation="99"),
    "P5: second order for a reservation": lambda w: w.copy(w.order, id="o99", key="k99"),
    "P5: two answers for a key": lambda w: w.later(
        "order", 200, key=w.order.key, buyer=w.buyer_of(w.order), order="o99"
    ),
    "P5: repeated key refused": lambda w: w.later(
        "order", 409, "limit_reached", key=w.order.key, buyer=w.buyer_of(w.order)
    ),
    "P5: buyer above the limit": lambda w: w.change(w.of(s.Order)[1], buyer=w.order.buyer),
    "P5: order given to another buyer": order_given_to_another_buyer,
    "P6: order lost": lambda w: w.rows.remove(w.order),
    "P6: more sold than asked": lambda w: w.copy(w.order, id="o99", key="k99", reservation="99"),
    "P7: refused while there was stock": refused_while_there_was_stock,
    "P7: left over though refused": lambda w: w.change(
        w.item, available=1, held=w.item.held - 1, ledger_sum=1
    ),
    "P8: served after sold out": served_after_sold_out,
    "P8: promised order not readable": lambda w: w.later(
        "read", 404, order=w.order.id, buyer=w.buyer_of(w.order)
    ),
    "P9: stale token accepted": lambda w: w.change(w.of(s.Movement)[-1], token=1),
    "P9: fence lower than accepted": lambda w: w.change(w.item, fence=1),
    "P9: fence went back": lambda w: w.during.append(
        (1, [replace(w.item, fence=w.item.fence + 1)])
    ),
    "P10: follow up missing": lambda w: w.rows.remove(w.of(s.Effect)[0]),
    "P10: follow up twice": lambda w: w.change(w.of(s.Effect)[0], count=2),
    "P10: message left": lambda w: w.change(w.of(s.Outbox)[0], done=False),
    "P11: charged twice": lambda w: w.ledger.append(replace(w.ledger[0], id="again")),
    "P11: charged without an order": lambda w: w.ledger.append(
        s.Payment("c99", "o99", "capture", 999)
    ),
    "P11: charged too much": lambda w: change_ledger(w, w.ledger[0], amount=1000),
    "P11: refunded twice": refunded_twice,
    "P11: paid and never charged": paid_and_never_charged,
    "P11: money of a cancelled order kept": money_of_a_cancelled_order_kept,
    "P11: refund never said done": refund_never_said_done,
}
