"""Violations of P17 to P20, and of what other properties say of parts and later requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec.structs import replace

from loadtest.checker import snapshot as s
from loadtest.tests.busy_run import (
    SECOND,
    answer,
    cart_in,
    event,
    lines_of,
    order_in,
    plants_of,
    reservation_of,
    sold_in,
    tick_of,
)
from loadtest.tests.model_shop import CURRENCY, clock
from loadtest.tests.simulated_run import PRICE
from loadtest.tests.simulated_world import SALE, Line, World


def p17_part_of_a_cart_opened(world: World) -> None:
    line = cart_in(world, "awaiting_payment", "paid")[-1]
    world.rows.remove(reservation_of(world, line))
    world.rows.remove(line)


# Mails.


def change_mail(world: World, **values: Any) -> None:
    mail = next(each for each in world.deliveries if each.name == "confirmation")
    world.deliveries[world.deliveries.index(mail)] = replace(mail, **values)


def p19_paid_mail_never(world: World) -> None:
    world.deliveries = [each for each in world.deliveries if each.name != "paid"]


def p19_mail_that_nobody_is_owed(world: World) -> None:
    order = order_in(world, "awaiting_payment", "expired")
    (mail,) = (d for d in world.deliveries if (d.order, d.name) == (order.id, "confirmation"))
    world.deliveries.append(replace(mail, name="refunded", message="<refunded@shop>"))


def p19_mail_with_another_line(world: World) -> None:
    mail = world.deliveries[0]
    quantity = f"{lines_of(world, mail.order)[0].quantity} × "
    world.deliveries[0] = replace(mail, text=mail.text.replace(quantity, "77 × "))


def p19_confirmation_without_a_deadline(world: World) -> None:
    mail = next(each for each in world.deliveries if each.name == "confirmation")
    change_mail(world, text=mail.text[: mail.text.index("pay by")])


# Refusals.


def bought_once(world: World) -> tuple[Line, Line]:
    """A purchase of one request that was answered 201."""
    asked = Counter(each.values.get("key") for each in world.lines)
    return next(
        (start, end)
        for start, end in world.calls("order")
        if end.values["status"] == 201 and asked[start.values["key"]] == 1
    )


def p20_busy_after_the_commit(world: World) -> None:
    start, end = bought_once(world)
    order = end.values["order"]
    end.values = {"event": "fail", "status": 503, "code": "busy", "order": None}
    again = {name: start.values[name] for name in ("buyer", "key", "sale", "quantity")}
    world.call(end.time + 2, end.time + 3, "order", 200, order=order, **again)


def p20_limit_reached_one_too_early(world: World) -> None:
    order = sold_in(world)
    buyer = world.buyer_of(order)
    mine = [o.quantity for o in world.of(s.Order) if (o.buyer, o.sale) == (order.buyer, SALE)]
    (sale,) = (each for each in world.of(s.Sale) if each.id == SALE)
    world.change(sale, limit=sum(mine) + 2)
    world.call(5, 6, "order", 409, "limit_reached", buyer=buyer, quantity=2)


def p20_limit_not_given_back(world: World) -> None:
    orders = [each for each in world.of(s.Order) if each.sale == SALE]
    keep_some = {each.buyer for each in orders if each.status != "cancelled"}
    buyer = next(world.buyer_of(each) for each in orders if each.buyer not in keep_some)
    world.later("order", 409, "limit_reached", buyer=buyer, quantity=4)


def p20_paused_long_after(world: World) -> None:
    (first,) = [each for each in world.terms if each.sale == SALE]
    for time, paused in ((world.end + 10, True), (world.end + 20, False)):
        at = clock(time)
        world.terms.append(replace(first, asked=at, done=at + SECOND, paused=paused))
    world.call(world.end + 30, world.end + 31, "order", 403, "paused", quantity=1)


def p20_declined_and_captured(world: World) -> None:
    order = order_in(world, "paid").id
    for start, end in world.calls("payment"):
        if start.values["order"] == order:
            end.values |= {"event": "fail", "status": 409, "code": "payment_declined"}
            end.values.pop("shown", None)
    kept = {end.call for _, end in world.calls("payment", "order", "read")}
    world.lines = [each for each in world.lines if each.call in kept]


def p20_refused_for_a_state_it_never_had(world: World) -> None:
    order = order_in(world, "awaiting_payment")
    world.later("cancel", 409, "order_paid", buyer=world.buyer_of(order), order=order.id)


def p20_called_expired_before_its_deadline(world: World) -> None:
    order = sold_in(world)
    buyer, at = world.buyer_of(order), tick_of(order.created) + 9
    world.call(at, at + 1, "payment", 409, "order_expired", buyer=buyer, order=order.id)


def p20_promised_order_not_found_by_its_payment(world: World) -> None:
    _, end = bought_once(world)
    order = lines_of(world, end.values["order"])[0]
    buyer, at = world.buyer_of(order), end.time + 1
    world.call(at, at + 1, "payment", 404, "not_found", buyer=buyer, order=order.id)


# What the other properties say of parts, of limits above one, and of what comes after.


def p2_units_of_a_cancelled_part_sold_again(world: World) -> None:
    """As a returned part of that sale would be."""
    item = next(i for i in world.of(s.Item) if i.id == "8")
    gone = next(m for m in world.of(s.Movement) if (m.item, m.reason) == ("8", "write_off"))
    world.rows.remove(gone)
    world.add(item, total=-gone.delta, available=-gone.delta, ledger_sum=-gone.delta)


def p5_part_given_back_twice_under_one_key(world: World) -> None:
    part = event(world, "part_cancelled", "part_returned")
    number = max(each.id for each in world.of(s.Event)) + 1
    world.rows.append(replace(part, id=number))


def p3_part_promised_and_not_given_back(world: World) -> None:
    part = event(world, "part_cancelled", "part_returned")
    op = "cancel" if part.name == "part_cancelled" else "refund"
    buyer = world.buyer_of(lines_of(world, part.order)[0])
    asked: dict[str, Any] = {"order": part.order, "quantity": part.quantity, "sale": part.sale}
    for number in range(3):
        world.later(op, 200, key=f"part {number}", buyer=buyer, **asked)


def p5_limit_exceeded_by_quantities_above_one(world: World) -> None:
    order = sold_in(world)
    each = reservation_of(world, order)
    world.change(each, quantity=5 + each.returned)


def p5_promised_order_refused_after_the_end(world: World) -> None:
    start, _ = bought_once(world)
    again = {name: start.values[name] for name in ("buyer", "key", "sale", "quantity")}
    world.later("order", 410, "ended", **again)


def p8_paid_and_awaiting_again(world: World) -> None:
    end, shown = answer(world, "payment", 200, status="paid")
    order = lines_of(world, end.values["order"])[0]
    buyer, time = world.buyer_of(order), end.time + 5
    before = shown | {"status": "awaiting_payment"}
    world.call(time, time + 1, "read", 200, buyer=buyer, order=order.id, shown=before)


# Sales as they are shown.


def look(world: World, time: int, status: str, available: int, amount: int = PRICE) -> None:
    shown = {"amount": amount, "currency": CURRENCY, "status": status, "available": available}
    world.call(time, time + 1, "look", 200, shown=shown)


def p20_shown_as_open_while_paused(world: World) -> None:
    p20_paused_long_after(world)
    look(world, world.end + 15, "open", 3)


def p14_cancelled_units_shown_as_live(world: World) -> None:
    shown = answer(world, "cancel", 200, status="cancelled")[1]
    shown["returned"] = 0


def p16_cancelled_bit_by_bit_and_still_open(world: World) -> None:
    order = order_in(world, "expired")
    number = max(each.id for each in world.of(s.Event)) + 1
    part = ("part_cancelled", clock(9), order.amount, order.quantity, order.sale)
    world.rows.append(s.Event(number, order.id, *part))


def p14_returned_units_not_shown(world: World) -> None:
    asked, end = next(
        (asked.values, end.values)
        for asked, end in world.calls("cancel")
        if asked.values["quantity"] and end.values["event"] == "ok"
    )
    end["shown"] = end["shown"] | {"returned": asked["quantity"] - 1}


PLANTS = plants_of(vars()) | {
    "P22: voucher used once too often": lambda w: w.rows.append(s.Voucher("v", 3, 4)),
    "P23: order that holds more than was paid for": lambda w: w.rows.append(
        s.Bill(w.order.id, 100, 200)
    ),
    "P17: cart without a line": lambda w: w.rows.remove(cart_in(w, "awaiting_payment", "paid")[-1]),
    "P17: cart in two orders": lambda w: w.change(
        cart_in(w, "awaiting_payment", "paid")[-1], id="o999"
    ),
    "P18: other buyers order readable": lambda w: w.later("read", 200, order=w.order.id),
    "P18: stranger told that it is paid": lambda w: w.later(
        "cancel", 409, "order_paid", order=w.order.id
    ),
    "P19: confirmation to another buyer": lambda w: change_mail(w, recipient="other@example.com"),
    "P19: mail marked as sent that never arrived": lambda w: w.deliveries.remove(w.deliveries[0]),
    "P19: two confirmations": lambda w: w.deliveries.append(
        replace(w.deliveries[0], message="<another@shop>")
    ),
    "P19: mail sent again though nothing broke": lambda w: w.deliveries.append(w.deliveries[0]),
    "P19: mail about another order": lambda w: change_mail(w, subject="Order o998"),
    "P19: mail that says something else": lambda w: change_mail(
        w, subject=w.deliveries[0].subject.replace("reserved", "expired")
    ),
    "P19: mail with another amount": lambda w: change_mail(w, text="Total: ¥0.01"),
    "P20: server error without a fault": lambda w: w.later("order", 500, "internal_error"),
    "P20: purchase unknown without a fault": lambda w: w.later("order", 503, "outcome_unknown"),
    "P20: sold out told as an error": lambda w: w.later("order", 503, "sold_out"),
    "P20: open with nothing available": lambda w: look(w, 20, "open", 0),
    "P20: sold out with units available": lambda w: look(w, 20, "sold_out", 3),
    "P20: shown as ended that was not": lambda w: look(w, 20, "ended", 3),
    "P20: invalid request granted": lambda w: w.later("invalid", 201, must=422),
    "P20: forged token taken for a buyer's": lambda w: w.later(
        "invalid", 409, "sold_out", must=401
    ),
    "P20: invalid request refused for another reason": lambda w: w.later(
        "invalid", 404, "not_found", must=401
    ),
    "P14: shown with another price": lambda w: look(w, 20, "open", 3, amount=PRICE + 7),
    "P18: link to another buyers order": lambda w: w.later("page", 200, orders=[w.order.id]),
    "P20: limit reached with nothing bought": lambda w: w.call(
        5, 6, "order", 409, "limit_reached", quantity=4
    ),
    "P20: paused that was not": lambda w: w.call(20, 21, "order", 403, "paused"),
    "P20: ended that was not": lambda w: w.call(20, 21, "order", 410, "ended"),
    "P20: not started that was": lambda w: w.call(20, 21, "order", 403, "not_started"),
    "P20: key not reused": lambda w: w.call(5, 6, "order", 422, "idempotency_key_reused"),
    "P2: part that came back and is held": lambda w: w.change(
        next(each for each in w.of(s.Reservation) if each.state == s.CONFIRMED), returned=99
    ),
    "P10: follow up of no order": lambda w: w.copy(w.of(s.Effect)[0], order="gone"),
}
