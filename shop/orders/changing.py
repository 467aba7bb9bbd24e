"""The life of an order: paid, cancelled, refunded or expired.

Every change is a guarded update that counts the rows it changed, so of two that race exactly one
happens, and what follows from it (units put back, a mail) happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db import transaction

from inventory import outbox, services
from inventory.models import Reservation
from shop.models import Order, OrderLine

Status = Order.Status
EXPIRED = "orders.expired"


class WrongState(Exception):
    """The order's state does not allow it.

    Attributes:
        status: where the order stands.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"the order is {status}")
        self.status = status


def pay(order: Order) -> Order:
    """Take the payment: the reservations are confirmed. Paying twice is paying once.

    Raises:
        WrongState: it is not awaiting payment, or its time to pay has passed.
    """
    try:
        with transaction.atomic():
            if not all(services.confirm(reservation) for reservation in _reservations(order)):
                raise WrongState(Status.EXPIRED)  # and take back what was confirmed
            _move([order.pk], Status.AWAITING_PAYMENT, Status.PAID)
    except WrongState:
        order.refresh_from_db()
        # If it is still awaiting payment, the deadline has passed and the sweep not come by yet.
        if order.status not in {Status.PAID, Status.AWAITING_PAYMENT}:
            raise WrongState(order.status) from None
        if order.status == Status.AWAITING_PAYMENT:
            raise
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
    """Expire orders whose time to pay has passed; how many reservations were released.

    Safe to run anywhere, any time.
    """
    total = 0
    while count := services.expire(_expire_orders):
        total += count
    return total


def expire_those(orders: Sequence[int]) -> int:
    """Expire those of these orders whose time to pay has passed; how many reservations were
    released.

    As safe as :func:`expire`: nothing is believed about them, the database judges each.
    """
    unpaid = OrderLine.objects.filter(order__in=orders, order__status=Order.Status.AWAITING_PAYMENT)
    reservations = list(unpaid.values_list("pk", flat=True))
    return len(services.release(reservations, _expire_orders, only_due=True))


def _give_back(order: Order, was: Reservation.State, before: Status, after: Status) -> Order:
    released = services.release(_reservations(order), _mover(before, after), was=was)
    order.refresh_from_db()
    if not released and order.status != after:
        raise WrongState(order.status)
    return order


def _reservations(order: Order) -> list[int]:
    return [line.pk for line in order.lines.all()]


def _mover(before: Status, after: Status) -> Callable[[Sequence[services.Released]], None]:
    return lambda released: _move(_orders_of(released), before, after)


def _expire_orders(released: Sequence[services.Released]) -> None:
    orders = _orders_of(released)
    _move(orders, Status.AWAITING_PAYMENT, Status.EXPIRED)
    outbox.emit(EXPIRED, {"orders": orders})


def _orders_of(released: Sequence[services.Released]) -> list[int]:
    lines = OrderLine.objects.filter(pk__in=[each.reservation for each in released])
    return list(lines.values_list("order", flat=True).distinct().order_by("order"))


def _move(orders: Sequence[int], before: Status, after: Status) -> None:
    """Move orders on. Their reservations, moved in this transaction, have decided already."""
    moved = Order.objects.filter(pk__in=orders, status=before).update(status=after)
    if moved != len(orders):
        raise RuntimeError(f"{len(orders) - moved} of orders {orders} were not {before}")
