"""Cancel orders, in whole or in part, and expire unpaid ones."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from django.db import InterfaceError, OperationalError
from django.db.models import F

from inventory import services
from inventory.models import Reservation
from shop.orders import states
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.orders.partial import Part, keeps_units, line_of, note_part, was_given_back
from shop.orders.transitions import ORDER_LOCK, WrongState, lock, orders_of, take
from shop.refusals import Refusal

log = logging.getLogger(__name__)

T = TypeVar("T")

HELD = Reservation.State.HELD
Kind = OrderEvent.Kind
Status = Order.Status


def cancel(order: Order, part: Part | None = None) -> Order:
    """Cancel an unpaid order or a part of it. Cancelling again changes nothing.

    It does not wait for a payment in progress: money taken meanwhile is refunded automatically.

    Raises:
        WrongState: it is not awaiting payment.
        Refusal: there are fewer units, or the part's key was used for another part.
    """
    with ORDER_LOCK.hold(order.pk):
        if part is None:
            _cancel_all(order)
        else:
            _cancel_part(order, part)
    order.refresh_from_db()
    return order


def _cancel_all(order: Order) -> None:
    lines = list(order.lines.select_related("sale"))
    gone = [line.pk for line in lines if not line.sale.restock_cancelled]
    with services.releasing([line.pk for line in lines], was=HELD, written_off=gone) as released:
        if released:
            take(states.CANCEL, [order.pk])
    if not released:
        order.refresh_from_db()
        if order.status != Status.CANCELLED:
            raise WrongState(order.status)


def _cancel_part(order: Order, part: Part) -> None:
    line = line_of(order, part)
    gone = [] if line.sale.restock_cancelled else [line.pk]
    with services.releasing([line.pk], was=HELD, units=part.quantity, written_off=gone) as released:
        status = lock(order.pk)
        if was_given_back(part, Kind.PART_CANCELLED, line):
            released.clear()
        elif not released:
            raise Refusal("invalid_quantity")
        elif status != Status.AWAITING_PAYMENT:
            raise WrongState(status)
        else:
            worth = line.price * part.quantity
            Order.objects.filter(pk=order.pk).update(amount=F("amount") - worth)
            note_part(order.pk, Kind.PART_CANCELLED, part, line)
            if not keeps_units(order, released, HELD):
                take(states.CANCEL, [order.pk])


def expire(seconds: float = math.inf) -> int:
    """Expire orders whose time to pay has passed, some hundreds per transaction.

    Safe to run anywhere, at any time.

    Args:
        seconds: start no further transaction after this long.

    Returns:
        The number of expired orders.
    """
    total = 0
    end = time.monotonic() + seconds
    while due := services.due():
        expired = sum(split_on_error("reservation", _expire, due))
        total += expired
        if not expired or time.monotonic() >= end:
            break
    return total


def split_on_error(what: str, expire: Callable[[Sequence[int]], T], ids: Sequence[int]) -> list[T]:
    """Expire ids together; if one fails, halve them until the others are expired without it."""
    try:
        return [expire(ids)]
    except (OperationalError, InterfaceError):
        raise  # the database is unreachable: a later run finds all of them again
    except Exception:
        if len(ids) == 1:
            log.exception("%s %s could not be expired; the sweep will try again", what, ids[0])
            return []
        middle = len(ids) // 2
        return split_on_error(what, expire, ids[:middle]) + split_on_error(
            what, expire, ids[middle:]
        )


def expire_those(orders: Iterable[int]) -> int:
    """Expire those of these orders whose deadline has passed; return how many.

    As safe as `expire`: the database decides on each order.
    """
    due = services.due_of(OrderLine.objects.filter(order__in=orders).values_list("pk", flat=True))
    return _expire(due) if due else 0


def _expire(due: Sequence[int]) -> int:
    """Release due reservations and the others of their orders: an order expires as a whole."""
    together = OrderLine.objects.filter(order__lines__in=due).values_list("pk", flat=True)
    with services.releasing({*due, *together}, was=HELD) as released:
        expired = orders_of(released)
        take(states.EXPIRE, expired)
    return len(expired)
