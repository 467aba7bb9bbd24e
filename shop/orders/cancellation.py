"""Cancel orders, in whole or in part, and expire unpaid ones."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from inventory import services
from inventory.models import Reservation
from inventory.services import Released
from shop.catalogue.models import Sale
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.orders.parts import GivingBack, Part, give_back
from shop.orders.transitions import ORDER_LOCK, Step, orders_of, refresh, take

log = logging.getLogger(__name__)

T = TypeVar("T")

HELD = Reservation.State.HELD
Status = Order.Status


class Cancelling(GivingBack):
    """Cancel what is unpaid."""

    was = HELD
    status = Status.AWAITING_PAYMENT
    over = frozenset({Status.CANCELLED})
    event = OrderEvent.Kind.PART_CANCELLED

    def restocks(self, sale: Sale) -> bool:
        """Return whether cancelled units are sold again."""
        return sale.restock_cancelled

    def locked(self, order: Order) -> AbstractContextManager[None]:
        """Lock all reservations if what is left may be free: it is confirmed with the part."""
        return _reservations_locked(order) if _may_be_free(order) else nullcontext()

    def end(self, order: Order) -> None:
        """Cancel the order."""
        take(Step.CANCEL, [order.pk])

    def count_part(self, order: Order, worth: int) -> None:
        """Take the part off the amount to be paid."""
        Order.objects.filter(pk=order.pk).update(amount=F("amount") - worth)

    def keep_rest(self, order: Order, part: Part, worth: int, released: Sequence[Released]) -> None:
        """Keep the rest, which is paid if it costs nothing."""
        if _may_be_free(order) and Order.objects.filter(pk=order.pk, amount=0).exists():
            _confirm_rest(order, released)


CANCELLING = Cancelling()


def cancel(order: Order, part: Part | None = None) -> Order:
    """Cancel an unpaid order or a part of it. Cancelling again changes nothing.

    It does not wait for a payment in progress: money taken meanwhile is refunded automatically.

    Raises:
        WrongState: it is not awaiting payment.
        Refusal: there are fewer units, or the part's key was used for another part.
    """
    with ORDER_LOCK.hold(order.pk):
        give_back(order, CANCELLING, part)
    refresh(order)
    return order


def _may_be_free(order: Order) -> bool:
    return order.lines.filter(amount=0).exists()


@contextmanager
def _reservations_locked(order: Order) -> Iterator[None]:
    """Lock all reservations of an order, which come before the order itself, in a transaction."""
    with transaction.atomic():
        rows = Reservation.objects.filter(orderline__order=order).order_by("pk")
        list(rows.select_for_update(no_key=True, of=("self",)).values_list("pk", flat=True))
        yield


def _confirm_rest(order: Order, released: Sequence[Released]) -> None:
    """Confirm the lines that cost nothing, once all others of the order are cancelled."""
    gone = [release.reservation for release in released if not release.kept]
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
    with services.releasing({*due, *_with_their_orders(due)}, was=HELD) as released:
        # Some may have been given more time while this waited for their locks: for the buyer's part
        # of a payment, or by staff.
        still_due = services.due_of(release.reservation for release in released)
        over = set(_with_their_orders(still_due))
        released[:] = [release for release in released if release.reservation in over]
        expired = orders_of(released)
        take(Step.EXPIRE, expired)
    return len(expired)


def _with_their_orders(reservations: Sequence[int]) -> list[int]:
    """Return the reservations of all orders that have one of these."""
    lines = OrderLine.objects.filter(order__lines__in=reservations)
    return list(lines.values_list("pk", flat=True))
