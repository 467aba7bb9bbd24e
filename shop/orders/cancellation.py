"""Cancel orders, in whole or in part, and expire unpaid ones.

A part is some units of a line, cancelled or returned under the buyer's key. A whole order can be
given back only once, so a repeated request is harmless. Two parts may be equal: only the key
distinguishes a repeated request from a new one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from inventory import services
from inventory.models import Reservation
from inventory.services import Released
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.orders.transitions import (
    ORDER_LOCK,
    Step,
    WrongState,
    lock,
    note,
    orders_of,
    refresh,
    take,
)
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
    refresh(order)
    return order


def _cancel_all(order: Order) -> None:
    lines = list(order.lines.all())
    gone = [line.pk for line in lines if not line.sale.restock_cancelled]
    with services.releasing([line.pk for line in lines], was=HELD, written_off=gone) as released:
        if released:
            take(Step.CANCEL, [order.pk])
    if not released:
        order.refresh_from_db()
        if order.status != Status.CANCELLED:
            raise WrongState(order.status)


def _cancel_part(order: Order, part: Part) -> None:
    line = line_of(order, part)
    gone = [] if line.sale.restock_cancelled else [line.pk]
    # What is left may be free: it is confirmed in the same transaction.
    may_be_free = order.lines.filter(amount=0).exists()
    releasing = services.releasing([line.pk], was=HELD, units=part.quantity, written_off=gone)
    with _reservations_locked(order) if may_be_free else nullcontext(), releasing as released:
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
                take(Step.CANCEL, [order.pk])
            elif may_be_free and Order.objects.filter(pk=order.pk, amount=0).exists():
                _confirm_rest(order, released)


@contextmanager
def _reservations_locked(order: Order) -> Iterator[None]:
    """Lock all reservations of an order, which come before the order itself, in a transaction."""
    with transaction.atomic():
        rows = Reservation.objects.filter(orderline__order=order).order_by("pk")
        list(rows.select_for_update(no_key=True, of=("self",)).values_list("pk", flat=True))
        yield


def _confirm_rest(order: Order, released: Sequence[Released]) -> None:
    """Confirm the lines that cost nothing, once all others of the order are cancelled."""
    gone = [each.reservation for each in released if not each.kept]
    left = Reservation.objects.filter(orderline__order=order, state=HELD).exclude(pk__in=gone)
    left.update(state=Reservation.State.CONFIRMED)
    take(Step.PAY, [order.pk])


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
        take(Step.EXPIRE, expired)
    return len(expired)


@dataclass(frozen=True, slots=True)
class Part:
    """The units that a buyer returns or cancels.

    Attributes:
        quantity: units.
        key: idempotency key.
        sale: selects the line; None if the order has only one.
    """

    quantity: int
    key: UUID
    sale: int | None = None


def line_of(order: Order, part: Part) -> OrderLine:
    """Return the line that a part belongs to.

    Raises:
        Refusal: there is none, or the part does not say which.
    """
    lines = order.lines.select_related("sale")
    if part.sale is not None:
        lines = lines.filter(sale=part.sale)
    found = list(lines[:2])
    if len(found) != 1:
        raise Refusal("invalid_quantity")
    return found[0]


def was_given_back(part: Part, kind: OrderEvent.Kind, line: OrderLine) -> bool:
    """Whether a part was given back under its key before; the order's row must be locked.

    Raises:
        Refusal: the key belongs to another part.
    """
    event = OrderEvent.objects.filter(order=line.order_id, key=part.key).first()
    if event is None:
        return False
    if (event.kind, event.line_id, event.quantity) != (kind, line.pk, part.quantity):
        raise Refusal("idempotency_key_reused")
    return True


def note_part(order: int, kind: OrderEvent.Kind, part: Part, line: OrderLine) -> None:
    """Record that a part was given back, under its key."""
    worth = line.price * part.quantity
    note(order, kind, amount=worth, quantity=part.quantity, line=line.pk, key=part.key)


def keeps_units(order: Order, released: Sequence[Released], state: Reservation.State) -> bool:
    """Whether an order keeps units when these are released; its row must be locked.

    Args:
        order: the order.
        released: what this transaction is about to release.
        state: of the reservations that count.
    """
    if any(each.kept for each in released):
        return True
    others = Reservation.objects.filter(orderline__order=order, state=state)
    return others.exclude(pk__in=[each.reservation for each in released]).exists()
