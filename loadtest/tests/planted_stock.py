"""Violations of P1 to P11, planted in what a sold-out run left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loadtest.checker import snapshot as s
from loadtest.tests.simulated_world import ITEM, World


def more_live_than_total(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, held=item.held + 1)


def below_zero_during_the_run(world: World) -> None:
    world.during.append((1, [s.Item(ITEM, 4, -1, 4, 1, -1)]))


def ledger_forgotten(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, ledger_sum=item.ledger_sum + 1)


def restock_without_movement(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, total=item.total + 5, available=item.available + 5)


def stock_restored_twice(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, available=item.available + 1, ledger_sum=item.ledger_sum + 1)


def reservation_lost(world: World) -> None:
    world.rows.remove(world.of(s.Reservation)[0])


def order_lost(world: World) -> None:
    world.rows.remove(world.of(s.Order)[0])


def order_for_another_quantity(world: World) -> None:
    order = world.of(s.Order)[0]
    world.change(order, quantity=order.quantity + 1)


def order_nobody_sent(world: World) -> None:
    world.rows.append(replace(world.of(s.Order)[0], id="o99", key="k99", reservation="99"))


def order_of_a_refused_key(world: World) -> None:
    key = world.call(world.end, world.end + 1, "order", 409, "sold_out")
    world.rows.append(replace(world.of(s.Order)[0], id="o99", key=key, reservation="99"))


def reservation_without_an_order(world: World) -> None:
    world.rows.append(replace(world.of(s.Reservation)[0], id="99", key="k99"))


def second_order_for_a_key(world: World) -> None:
    world.rows.append(replace(world.of(s.Order)[0], id="o99", reservation="99"))


def second_order_for_a_reservation(world: World) -> None:
    world.rows.append(replace(world.of(s.Order)[0], id="o99", key="k99"))


def two_answers_for_a_key(world: World) -> None:
    key = world.of(s.Order)[0].key
    (first, *_) = [line for line in world.lines if line.values.get("key") == key]
    buyer = first.values["buyer"]
    world.call(world.end, world.end + 1, "order", 200, key=key, buyer=buyer, order="o99")


def repeated_key_refused(world: World) -> None:
    order = world.of(s.Order)[0]
    buyer = next(ln.values["buyer"] for ln in world.lines if ln.values.get("key") == order.key)
    start = world.end + 1
    world.call(start, start + 1, "order", 409, "limit_reached", key=order.key, buyer=buyer)


def buyer_above_the_limit(world: World) -> None:
    first, second, *_ = world.of(s.Order)
    world.change(second, buyer=first.buyer)


def order_given_to_another_buyer(world: World) -> None:
    world.change(world.of(s.Order)[0], buyer="somebody")
    order = world.of(s.Order)[0]
    buyer = next(ln.values["buyer"] for ln in world.lines if ln.values.get("key") == order.key)
    key = world.call(1, 2, "order", 201, order="o99", buyer=buyer)
    world.rows.append(replace(order, id="o99", key=key, reservation="99", buyer="somebody else"))


def more_sold_than_asked(world: World) -> None:
    order_nobody_sent(world)


def refused_while_there_was_stock(world: World) -> None:
    for line in world.lines:
        line.time += 10
    world.call(1, 2, "order", 409, "sold_out")


def left_over_though_refused(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, available=1, held=item.held - 1, ledger_sum=1)


def served_after_sold_out(world: World) -> None:
    key = world.call(world.end + 5, world.end + 6, "order", 201, order="o99")
    world.call(world.end + 1, world.end + 2, "order", 409, "sold_out")
    world.rows.append(replace(world.of(s.Order)[0], id="o99", key=key, reservation="99"))


def promised_order_not_readable(world: World) -> None:
    order = world.of(s.Order)[0]
    buyer = next(ln.values["buyer"] for ln in world.lines if ln.values.get("key") == order.key)
    world.call(world.end, world.end + 1, "read", 404, order=order.id, buyer=buyer)


def stale_token_accepted(world: World) -> None:
    world.change(world.of(s.Movement)[-1], token=1)


def fence_lower_than_accepted(world: World) -> None:
    (item,) = world.of(s.Item)
    world.change(item, fence=1)


def fence_went_back(world: World) -> None:
    (item,) = world.of(s.Item)
    world.during.append((1, [replace(item, fence=item.fence + 1)]))


def follow_up_missing(world: World) -> None:
    world.rows.remove(world.of(s.Effect)[0])


def follow_up_twice(world: World) -> None:
    world.change(world.of(s.Effect)[0], count=2)


def message_left(world: World) -> None:
    world.change(world.of(s.Outbox)[0], done=False)


def charged_twice(world: World) -> None:
    world.ledger.append(replace(world.ledger[0], id="again"))


def charged_without_an_order(world: World) -> None:
    world.ledger.append(s.Payment("c99", "o99", "capture", 999))


def charged_too_much(world: World) -> None:
    world.ledger[0] = replace(world.ledger[0], amount=1000)


def refunded_twice(world: World) -> None:
    order = world.of(s.Order)[0].id
    world.ledger += [s.Payment(f"r{n}", order, "refund", 999) for n in range(2)]


def paid_and_never_charged(world: World) -> None:
    world.change(next(o for o in world.of(s.Order) if o.id == world.ledger[0].order), status="paid")
    del world.ledger[0]


def money_of_a_cancelled_order_kept(world: World) -> None:
    order = next(o for o in world.of(s.Order) if o.id == world.ledger[0].order)
    world.change(order, status="cancelled")


PLANTS: list[tuple[str, Callable[[World], None]]] = [
    ("P1", more_live_than_total),
    ("P1", below_zero_during_the_run),
    ("P2", ledger_forgotten),
    ("P2", restock_without_movement),
    ("P2", stock_restored_twice),
    ("P2", reservation_lost),
    ("P3", order_lost),
    ("P3", order_for_another_quantity),
    ("P4", order_nobody_sent),
    ("P4", order_of_a_refused_key),
    ("P4", reservation_without_an_order),
    ("P5", second_order_for_a_key),
    ("P5", second_order_for_a_reservation),
    ("P5", two_answers_for_a_key),
    ("P5", repeated_key_refused),
    ("P5", buyer_above_the_limit),
    ("P5", order_given_to_another_buyer),
    ("P6", order_lost),
    ("P6", more_sold_than_asked),
    ("P7", refused_while_there_was_stock),
    ("P7", left_over_though_refused),
    ("P8", served_after_sold_out),
    ("P8", promised_order_not_readable),
    ("P9", stale_token_accepted),
    ("P9", fence_lower_than_accepted),
    ("P9", fence_went_back),
    ("P10", follow_up_missing),
    ("P10", follow_up_twice),
    ("P10", message_left),
    ("P11", charged_twice),
    ("P11", charged_without_an_order),
    ("P11", charged_too_much),
    ("P11", refunded_twice),
    ("P11", paid_and_never_charged),
    ("P11", money_of_a_cancelled_order_kept),
]
