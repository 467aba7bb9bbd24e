"""Orders: opened with their reservation, then paid, cancelled, refunded or expired.

Every change is a guarded update that counts the rows it changed, so of two that race exactly one
happens, and what follows from it (units put back, a mail) happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import LiteralString

from django.db import connection, transaction

from inventory import outbox, services, sql
from inventory.models import Reservation
from inventory.outcomes import Declined, Granted, Purchase
from shop.models import Order

Status = Order.Status
OPENED = "orders.opened"
EXPIRED = "orders.expired"

# The sale's own row decides once more, in the transaction and by the database's clock: price,
# window and pause are those of this moment, whatever a web process remembered.
OPEN_ORDERS: LiteralString = """
WITH opened AS (
    INSERT INTO shop_order
        (reservation_id, sale_id, buyer_id, quantity, amount, status, pay_before, created)
    SELECT granted.reservation, sale.id, granted.buyer, granted.quantity,
           sale.price * granted.quantity, 'awaiting_payment',
           now() + make_interval(secs => granted.hold), now()
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::int[], %s::float8[])
        WITH ORDINALITY AS granted (reservation, sale, buyer, quantity, hold, position)
    JOIN shop_sale AS sale ON sale.id = granted.sale
     AND sale.starts_at <= now() AND now() < sale.ends_at AND NOT sale.paused
    ORDER BY granted.position
    RETURNING id, reservation_id, amount, pay_before, created
), told AS (
    INSERT INTO inventory_outboxmessage (topic, payload)
    SELECT 'orders.opened', jsonb_build_object('orders', jsonb_agg(id)) FROM opened
    HAVING count(*) > 0
)
SELECT array_agg(id), array_agg(reservation_id), array_agg(amount), now() FROM opened
"""


class WrongState(Exception):
    """The order's state does not allow it.

    Attributes:
        status: where the order stands.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"the order is {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Opened:
    """A new order, with the names that :class:`Order` has; a model instance costs ten times more,
    and one is made for each purchase of a batch.
    """

    pk: int
    sale_id: int
    quantity: int
    amount: Decimal
    pay_before: datetime
    created: datetime
    status: str = Status.AWAITING_PAYMENT


def open_orders(granted: Sequence[Granted]) -> list[Opened]:
    """Open an order for each reservation, and tell the outbox; in the reservations' transaction.

    Raises:
        Declined: the sale of some of them is not open.
    """
    with connection.wrap_database_errors, sql.cursor() as cursor:
        row = cursor.execute(
            OPEN_ORDERS,
            [
                sql.array(grant.reservation for grant in granted),
                sql.array(grant.purchase.scope for grant in granted),
                sql.array(grant.purchase.buyer for grant in granted),
                sql.array(grant.purchase.quantity for grant in granted),
                sql.array(grant.purchase.hold.total_seconds() for grant in granted),
            ],
        ).fetchone()
    assert row is not None
    ids, reservations, amounts, now = row
    opened = dict(zip(reservations or (), zip(ids or (), amounts or (), strict=True), strict=True))
    if len(opened) < len(granted):
        closed = {g.purchase.scope for g in granted if g.reservation not in opened}
        raise Declined(closed)
    outbox.announce()
    return [_opened(grant.purchase, opened[grant.reservation], now) for grant in granted]


def _opened(purchase: Purchase, row: tuple[int, Decimal], now: datetime) -> Opened:
    pk, amount = row
    return Opened(pk, purchase.scope, purchase.quantity, amount, now + purchase.hold, now)


def pay(order: Order) -> Order:
    """Take the payment: the reservation is confirmed. Paying twice is paying once.

    Raises:
        WrongState: it is not awaiting payment, or its time to pay has passed.
    """
    with transaction.atomic():
        if not services.confirm(order.reservation_id):
            order.refresh_from_db()
            if order.status == Status.PAID:
                return order
            if order.status == Status.AWAITING_PAYMENT:
                # The deadline has passed and the sweep has not come by yet.
                raise WrongState(Status.EXPIRED)
            raise WrongState(order.status)
        _move([order.pk], Status.AWAITING_PAYMENT, Status.PAID)
    order.refresh_from_db()
    return order


def cancel(order: Order) -> Order:
    """Give up an order that was not paid; its units go back. Cancelling twice is once.

    Raises:
        WrongState: it is not awaiting payment.
    """
    return _give_back(order, Reservation.State.HELD, Status.AWAITING_PAYMENT, Status.CANCELLED)


def refund(order: Order) -> Order:
    """Take back a paid order; its units go back. Refunding twice is once.

    Raises:
        WrongState: it is not paid.
    """
    return _give_back(order, Reservation.State.CONFIRMED, Status.PAID, Status.REFUNDED)


def expire() -> int:
    """Expire orders whose time to pay has passed; how many were. Safe to run anywhere, any time."""
    total = 0
    while count := services.expire(_expire_orders):
        total += count
    return total


def expire_those(orders: Sequence[int]) -> int:
    """Expire those of these orders whose time to pay has passed; how many were.

    As safe as :func:`expire`: nothing is believed about them, the database judges each.
    """
    unpaid = Order.objects.filter(pk__in=orders, status=Status.AWAITING_PAYMENT)
    reservations = unpaid.values_list("reservation", flat=True)
    return len(services.release(list(reservations), _expire_orders, only_due=True))


def _give_back(order: Order, was: Reservation.State, before: Status, after: Status) -> Order:
    released = services.release([order.reservation_id], _mover(before, after), was=was)
    order.refresh_from_db()
    if not released and order.status != after:
        raise WrongState(order.status)
    return order


def _mover(before: Status, after: Status) -> Callable[[Sequence[services.Released]], None]:
    def move(released: Sequence[services.Released]) -> None:
        reservations = [each.reservation for each in released]
        pks = Order.objects.filter(reservation__in=reservations).values_list("pk", flat=True)
        _move(list(pks), before, after)

    return move


def _expire_orders(released: Sequence[services.Released]) -> None:
    orders = Order.objects.filter(reservation__in=[each.reservation for each in released])
    pks = list(orders.values_list("pk", flat=True))
    _move(pks, Status.AWAITING_PAYMENT, Status.EXPIRED)
    outbox.emit(EXPIRED, {"orders": pks})


def _move(orders: Sequence[int], before: Status, after: Status) -> None:
    """Move orders on. Their reservations, moved in this transaction, have decided already."""
    moved = Order.objects.filter(pk__in=orders, status=before).update(status=after)
    if moved != len(orders):
        raise RuntimeError(f"{len(orders) - moved} of orders {orders} were not {before}")


MISMATCHES = """
SELECT shop_order.id, shop_order.status, reservation.state, shop_order.quantity,
       reservation.quantity
FROM shop_order
JOIN inventory_reservation AS reservation ON reservation.id = shop_order.reservation_id
WHERE (%(items)s::bigint[] IS NULL OR reservation.item_id = ANY(%(items)s))
  AND ((reservation.state, shop_order.status) NOT IN (
           ('held', 'awaiting_payment'), ('confirmed', 'paid'), ('released', 'expired'),
           ('released', 'cancelled'), ('released', 'refunded'))
       OR shop_order.quantity <> reservation.quantity
       OR shop_order.buyer_id <> reservation.buyer
       OR shop_order.sale_id <> reservation.scope)
ORDER BY shop_order.id LIMIT 1000
"""


def mismatches(items: list[int] | None = None) -> list[str]:
    """Orders that do not fit their reservation, one sentence each.

    Args:
        items: ids of items; None for all.
    """
    with connection.cursor() as cursor:
        cursor.execute(MISMATCHES, {"items": items})
        return [
            f"order {pk} is {status} for {ordered}, its reservation {state} for {reserved}"
            for pk, status, state, ordered, reserved in cursor.fetchall()
        ]
