"""Violations of P1 to P11 in a sold-out run, and of P14 to P16 in a busy one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.tests.busy_run import (
    SECOND,
    Plant,
    answer,
    cart_in,
    change_ledger,
    event,
    lines_of,
    order_in,
    orders_with,
    plants_of,
    reservation_of,
    sold_in,
)
from loadtest.tests.simulated_world import ITEM, SALE, World


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


STOCK_PLANTS: dict[str, Plant] = {
    "P1: more live than total": lambda w: w.add(w.item, held=1),
    "P1: below zero during the run": lambda w: w.during.append(
        (1, [s.Item(ITEM, 4, -1, 4, 1, -1)])
    ),
    "P2: ledger forgotten": lambda w: w.add(w.item, ledger_sum=1),
    "P2: restock without movement": lambda w: w.add(w.item, total=5, available=5),
    "P2: stock restored twice": lambda w: w.add(w.item, available=1, ledger_sum=1),
    "P2: reservation lost": lambda w: w.rows.remove(w.of(s.Reservation)[0]),
    "P3: order lost": lambda w: w.rows.remove(w.order),
    "P3: order for another quantity": lambda w: w.add(w.order, quantity=1),
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


def p14_wrong_amount_for_all(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, amount=2 * order.amount, to_pay=2 * order.to_pay)


def p14_price_of_before_the_change(world: World) -> None:
    order = sold_in(world)
    (first,) = [each for each in world.terms if each.sale == SALE]
    before = order.created - 5 * SECOND
    world.terms.append(replace(first, asked=before, done=before + SECOND, price=first.price + 1))


def p14_nothing_taken_off_for_a_part(world: World) -> None:
    part = event(world, "part_cancelled")
    for line in lines_of(world, part.order):
        world.add(line, to_pay=part.amount)


def p14_refund_that_never_comes(world: World) -> None:
    order = order_in(world, "refunded")
    world.change(order, status="refund_pending", refunded=0)
    gone = ("refunded", "money_back")
    for each in world.of(s.Event):
        if each.order == order.id and each.name in gone:
            world.rows.remove(each)
    world.ledger = [p for p in world.ledger if (p.order, p.operation) != (order.id, "refund")]


def p14_late_payment_kept(world: World) -> None:
    order = order_in(world, "expired")
    world.ledger.append(s.Payment("c-planted", order.id, "capture", order.to_pay, "CNY"))


# Window and pause.


def closed_for(world: World, **terms: Any) -> None:
    """Let a sale have been closed while an order was opened in it."""
    order = sold_in(world)
    (first,) = [each for each in world.terms if each.sale == SALE]
    closed, opened = order.created - 2 * SECOND, order.created + 200 * SECOND
    world.terms += [
        replace(first, asked=closed, done=closed + SECOND, **terms),
        replace(first, asked=opened, done=opened + SECOND),
    ]


def p15_sold_after_the_end(world: World) -> None:
    closed_for(world, ends_at=sold_in(world).created - SECOND)


def p15_sold_before_a_reopening(world: World) -> None:
    closed_for(world, starts_at=sold_in(world).created + SECOND)


def opened_early(world: World, buyer: str) -> None:
    """Let a sale have been open for one buyer only when an order was opened in it."""
    order = sold_in(world)
    [sale] = [each for each in world.of(s.Sale) if each.id == SALE]
    world.change(sale, early_starts_at=order.created - SECOND)
    world.rows.append(s.Early(SALE, buyer))
    closed_for(world, starts_at=order.created + SECOND)


def p15_sold_early_to_a_stranger(world: World) -> None:
    opened_early(world, "a member")


# Hold and expiry.


def p16_hold_far_too_short(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, pay_before=order.created + (order.pay_before - order.created) // 10)
    for each in world.of(s.Reservation):
        world.change(each, deadline=0)


def p16_expired_too_early(world: World) -> None:
    early = event(world, "expired")
    world.change(early, at=lines_of(world, early.order)[0].pay_before - SECOND)


def p16_order_that_never_expires(world: World) -> None:
    single = (o for o in world.of(s.Order) if len(lines_of(world, o.id)) == 1)
    order = min((o for o in single if o.status == "expired"), key=lambda o: o.pay_before)
    world.change(reservation_of(world, order), state=s.HELD)
    world.change(order, status="awaiting_payment")
    world.rows.remove(next(e for e in world.of(s.Event) if e.order == order.id))


def p16_paid_order_that_expired(world: World) -> None:
    order = order_in(world, "paid")
    number = max(each.id for each in world.of(s.Event)) + 1
    world.rows.append(s.Event(number, order.id, "expired", order.pay_before + SECOND))
    world.change(reservation_of(world, order), state=s.RELEASED)
    world.change(order, status="expired")


def p16_told_paid_and_expired_instead(world: World) -> None:
    order = order_in(world, "expired")
    shown = {"amount": order.to_pay, "currency": "CNY", "status": "paid", "refunded": 0}
    buyer = world.buyer_of(order)
    world.call(5, 6, "payment", 200, buyer=buyer, order=order.id, shown=shown)


def p16_part_released_twice(world: World) -> None:
    part = event(world, "part_cancelled", "part_returned")
    live = (o for o in lines_of(world, part.order) if o.sale == part.sale)
    each = reservation_of(world, next(live))
    world.change(each, returned=each.returned + 1, state=s.CONFIRMED)


PLANTS = plants_of(vars()) | {
    "P14: wrong amount for some quantities": lambda w: w.add(
        next(order for order in w.of(s.Order) if order.quantity > 1), amount=-1
    ),
    "P14: part returned for a wrong amount": lambda w: w.add(event(w, "part_returned"), amount=-1),
    "P14: order in another currency": orders_with(currency="EUR"),
    "P14: told more is back than is": lambda w: w.add(order_in(w, "refunded"), refunded=1),
    "P15: order dated back": lambda w: w.add(sold_in(w), created=-100 * SECOND),
    "P16: reservation held for another time": lambda w: w.add(
        w.of(s.Reservation)[0], deadline=SECOND
    ),
    "P14: refund of too much": lambda w: w.ledger.append(
        s.Payment("r-planted", order_in(w, "paid").id, "refund", 1, "CNY")
    ),
    "P11: late payment kept": p14_late_payment_kept,
    "P14: wrong amount captured": lambda w: change_ledger(
        w, w.ledger[0], amount=w.ledger[0].amount - 1
    ),
    "P14: captured in another currency": lambda w: change_ledger(w, w.ledger[0], currency="EUR"),
    "P14: another amount shown": lambda w: answer(w, "order", 201)[1].update(amount=1),
    "P14: money shown that is not back": lambda w: answer(w, "payment", 200, status="paid")[
        1
    ].update(refunded=1),
    "P15: sold while paused": lambda w: closed_for(w, paused=True),
    "P16: step without an event": lambda w: w.rows.remove(event(w, "paid")),
    "P16: half of a cart expired": lambda w: w.change(
        reservation_of(w, cart_in(w, "awaiting_payment", "paid")[0]), state=s.RELEASED
    ),
    "P16: half of an expired cart held": lambda w: w.change(
        reservation_of(w, cart_in(w, "expired")[0]), state=s.HELD
    ),
}
