"""Violations of P14 to P16, planted in what a correct run left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.tests.busy_run import (
    SECOND,
    answer,
    cart_in,
    change_ledger,
    event,
    lines_of,
    order_in,
    reservation_of,
)
from loadtest.tests.simulated_world import SALE, World


def wrong_amount_for_some_quantities(world: World) -> None:
    order = next(o for o in world.of(s.Order) if o.quantity > 1)
    world.change(order, amount=order.amount - 1)


def wrong_amount_for_all(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, amount=2 * order.amount, to_pay=2 * order.to_pay)


def price_of_before_the_change(world: World) -> None:
    order = order_in(world, "paid", "awaiting_payment", sale=SALE)
    (first,) = [each for each in world.terms if each.sale == SALE]
    before = order.created - 5 * SECOND
    world.terms.append(replace(first, asked=before, done=before + SECOND, price=first.price + 1))


def order_in_another_currency(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, currency="EUR")


def nothing_taken_off_for_a_part(world: World) -> None:
    part = event(world, "part_cancelled")
    for line in lines_of(world, part.order):
        world.change(line, to_pay=line.to_pay + part.amount)


def part_returned_for_a_wrong_amount(world: World) -> None:
    part = event(world, "part_returned")
    world.change(part, amount=part.amount - 1)


def refund_of_a_wrong_amount(world: World) -> None:
    paid = {each.order for each in world.of(s.Event) if each.name == "part_returned"}
    refund = next(p for p in world.ledger if p.operation == "refund" and p.order in paid)
    change_ledger(world, refund, amount=refund.amount - 1)


def refund_that_never_comes(world: World) -> None:
    order = order_in(world, "refunded")
    world.change(order, status="refund_pending", refunded=0)
    gone = ("refunded", "money_back")
    for each in world.of(s.Event):
        if each.order == order.id and each.name in gone:
            world.rows.remove(each)
    world.ledger = [p for p in world.ledger if (p.order, p.operation) != (order.id, "refund")]


def late_payment_kept(world: World) -> None:
    order = order_in(world, "expired")
    world.ledger.append(s.Payment("c-planted", order.id, "capture", order.to_pay, "CNY"))


def told_more_is_back_than_is(world: World) -> None:
    order = order_in(world, "refunded")
    world.change(order, refunded=order.refunded + 1)


# Window and pause.


def closed_for(world: World, **terms: Any) -> s.Order:
    """Let a sale have been closed while an order was opened in it."""
    order = order_in(world, "paid", "awaiting_payment", sale=SALE)
    (first,) = [each for each in world.terms if each.sale == SALE]
    closed, opened = order.created - 2 * SECOND, order.created + 200 * SECOND
    world.terms += [
        replace(first, asked=closed, done=closed + SECOND, **terms),
        replace(first, asked=opened, done=opened + SECOND),
    ]
    return order


def sold_after_the_end(world: World) -> None:
    order = order_in(world, "paid", "awaiting_payment", sale=SALE)
    closed_for(world, ends_at=order.created - SECOND)


def sold_before_a_reopening(world: World) -> None:
    order = order_in(world, "paid", "awaiting_payment", sale=SALE)
    closed_for(world, starts_at=order.created + SECOND)


def order_dated_back(world: World) -> None:
    order = order_in(world, "paid", "awaiting_payment", sale=SALE)
    world.change(order, created=order.created - 100 * SECOND)


# Hold and expiry.


def hold_far_too_short(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, pay_before=order.created + (order.pay_before - order.created) // 10)
    for each in world.of(s.Reservation):
        world.change(each, deadline=0)


def reservation_held_for_another_time(world: World) -> None:
    each = world.of(s.Reservation)[0]
    world.change(each, deadline=each.deadline + SECOND)


def expired_too_early(world: World) -> None:
    early = event(world, "expired")
    world.change(early, at=lines_of(world, early.order)[0].pay_before - SECOND)


def order_that_never_expires(world: World) -> None:
    single = (o for o in world.of(s.Order) if len(lines_of(world, o.id)) == 1)
    order = min((o for o in single if o.status == "expired"), key=lambda o: o.pay_before)
    world.change(reservation_of(world, order), state=s.HELD)
    world.change(order, status="awaiting_payment")
    world.rows.remove(next(e for e in world.of(s.Event) if e.order == order.id))


def paid_order_that_expired(world: World) -> None:
    order = order_in(world, "paid")
    number = max(each.id for each in world.of(s.Event)) + 1
    world.rows.append(s.Event(number, order.id, "expired", order.pay_before + SECOND))
    world.change(reservation_of(world, order), state=s.RELEASED)
    world.change(order, status="expired")


def told_paid_and_expired_instead(world: World) -> None:
    order = order_in(world, "expired")
    shown = {"amount": order.to_pay, "currency": "CNY", "status": "paid", "refunded": 0}
    buyer = world.buyer_of(order)
    world.call(5, 6, "payment", 200, buyer=buyer, key="", order=order.id, shown=shown)


def part_released_twice(world: World) -> None:
    part = event(world, "part_cancelled", "part_returned")
    live = (o for o in lines_of(world, part.order) if o.sale == part.sale)
    each = reservation_of(world, next(live))
    world.change(each, returned=each.returned + 1, state=s.CONFIRMED)


PLANTS: dict[str, Callable[[World], object]] = {
    "P14: wrong amount for some quantities": wrong_amount_for_some_quantities,
    "P14: wrong amount for all": wrong_amount_for_all,
    "P14: price of before the change": price_of_before_the_change,
    "P14: order in another currency": order_in_another_currency,
    "P14: nothing taken off for a part": nothing_taken_off_for_a_part,
    "P14: part returned for a wrong amount": part_returned_for_a_wrong_amount,
    "P14: refund of a wrong amount": refund_of_a_wrong_amount,
    "P14: refund of too much": lambda w: w.ledger.append(
        s.Payment("r-planted", order_in(w, "paid").id, "refund", 1, "CNY")
    ),
    "P14: refund that never comes": refund_that_never_comes,
    "P14: late payment kept": late_payment_kept,
    "P11: late payment kept": late_payment_kept,
    "P14: wrong amount captured": lambda w: change_ledger(
        w, w.ledger[0], amount=w.ledger[0].amount - 1
    ),
    "P14: captured in another currency": lambda w: change_ledger(w, w.ledger[0], currency="EUR"),
    "P14: told more is back than is": told_more_is_back_than_is,
    "P14: another amount shown": lambda w: answer(w, "order", 201)[1].update(amount=1),
    "P14: money shown that is not back": lambda w: answer(w, "payment", 200, status="paid")[
        1
    ].update(refunded=1),
    "P15: sold while paused": lambda w: closed_for(w, paused=True),
    "P15: sold after the end": sold_after_the_end,
    "P15: sold before a reopening": sold_before_a_reopening,
    "P15: order dated back": order_dated_back,
    "P16: hold far too short": hold_far_too_short,
    "P16: reservation held for another time": reservation_held_for_another_time,
    "P16: expired too early": expired_too_early,
    "P16: order that never expires": order_that_never_expires,
    "P16: paid order that expired": paid_order_that_expired,
    "P16: told paid and expired instead": told_paid_and_expired_instead,
    "P16: step without an event": lambda w: w.rows.remove(event(w, "paid")),
    "P16: half of a cart expired": lambda w: w.change(
        reservation_of(w, cart_in(w, "awaiting_payment", "paid")[0]), state=s.RELEASED
    ),
    "P16: half of an expired cart held": lambda w: w.change(
        reservation_of(w, cart_in(w, "expired")[0]), state=s.HELD
    ),
    "P16: part released twice": part_released_twice,
}
