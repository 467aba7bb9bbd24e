"""Stop a sale, and cancel or refund all of its orders in the background.

    stop_sale ── one transaction: pause the sale, write the SaleStop and the first message
        read_orders ── a message: writes a message per order, and the message that reads on
            give_back_order ── a message: cancels or returns one order, in its own transaction
                (the money is asked for by the sweep of refunds, as always)

Each step is a message of the outbox, which is done when its transaction commits: after a crash, the
next worker goes on where the work stopped, and an order is given back once. An order that cannot be
given back has its message tried again, and raises an alert in the end; it does not hold up others.

A purchase or a late payment that was in progress may commit after its order was read. So the orders
are read again, until a whole round finds none, no payment is pending, and the sale has been paused
for longer than a purchase takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import Count, F, QuerySet
from django.db.models.functions import Now

from inventory import outbox
from inventory.models import OutboxMessage, Reservation
from shop.catalogue.models import Sale
from shop.orders import Part
from shop.orders.cancellation import CANCELLING
from shop.orders.models import Order, OrderLine, Status
from shop.orders.parts import GivingBack, give_back
from shop.orders.transitions import Act, acting
from shop.payments.models import Payment, Refund
from shop.payments.refunding import RETURNING, TAKING_BACK
from shop.staff.models import SaleStop

QUEUE = "stops"
"""Of its own, so that the orders of a large sale do not hold up the follow-up of others."""

READ = "stops.read"
GIVE_BACK = "stops.give_back"

AT_ONCE = 500
"""Orders that one message reads."""

IN_PROGRESS = timedelta(minutes=1)
"""A purchase that began before the pause has committed or failed by then."""

FIRST_PAUSE = timedelta(seconds=10)
"""Between two rounds, doubled after each."""

PARTS = UUID("6b3f1c1e-6c0e-4c6c-9a55-0d8c5a4f3f0e")
"""Namespace of the keys under which lines of carts are given back."""

WAYS: dict[str, GivingBack] = {
    Status.AWAITING_PAYMENT: CANCELLING,
    Status.PAID: RETURNING,
    Status.FULFILLED: TAKING_BACK,
}
"""How an order is given back, by its status."""


@transaction.atomic
def stop_sale(sale: int, act: Act, *, handed_over: bool) -> SaleStop:
    """Pause a sale and let all of its orders be cancelled or refunded.

    Args:
        sale: its id.
        act: who does it, and why.
        handed_over: also orders that were handed over, whose units come back.

    Returns:
        The stop; the one that is under way, if there is one.
    """
    Sale.objects.select_for_update(no_key=True).get(pk=sale)
    under_way = SaleStop.objects.filter(sale=sale, finished=None).first()
    if under_way is not None:
        return under_way
    Sale.objects.filter(pk=sale).update(paused=True)
    stop = SaleStop.objects.create(
        sale_id=sale, actor=act.actor, reason=act.reason, handed_over=handed_over
    )
    stop.refresh_from_db()
    _read_on(stop)
    return stop


def work(seconds: float = math.inf) -> int:
    """Go on with all stops for at most that long; return the number of messages done."""
    handlers = {READ: read_orders, GIVE_BACK: give_back_order}
    return outbox.deliver(handlers, queue=QUEUE, seconds=seconds)


def read_orders(payload: Any) -> None:
    """Write a message for each of the next orders; the handler of the outbox's messages.

    Args:
        payload: `{"stop": id}`.
    """
    stop = SaleStop.objects.select_for_update(no_key=True).get(pk=payload["stop"])
    if stop.finished is not None:
        return
    # A resume that began before the stop was committed may have won.
    Sale.objects.filter(pk=stop.sale_id, paused=False).update(paused=True)
    found = _live(stop).filter(pk__gt=stop.last).order_by("pk").values_list("pk", flat=True)
    orders = list(found[:AT_ONCE])
    if orders:
        wanted = {f"{stop.pk}-{stop.round}-{pk}": {"stop": stop.pk, "order": pk} for pk in orders}
        outbox.emit_once(GIVE_BACK, wanted, queue=QUEUE)
        stop.last = orders[-1]
        _read_on(stop)
    elif _is_over(stop):
        stop.finished = Now()
    else:
        pause = outbox.pause_after(stop.round, FIRST_PAUSE)
        stop.round, stop.last = stop.round + 1, 0
        _read_on(stop, pause)
    stop.save(update_fields=["last", "round", "finished"])


def give_back_order(payload: Any) -> None:
    """Cancel or return an order's units of the sale; the handler of the outbox's messages.

    Args:
        payload: `{"stop": id, "order": id}`.

    Raises:
        WrongState: it has changed just now; the message is tried again.
    """
    stop = SaleStop.objects.get(pk=payload["stop"])
    order = Order.objects.for_change().get(pk=payload["order"])
    if order.status not in _statuses(stop):
        return
    way = WAYS[order.status]
    live = [line for line in order.lines.all() if line.live]
    if not any(line.sale_id == stop.sale_id for line in live):
        return  # given back meanwhile
    with acting(Act(stop.actor, stop.reason)):
        if all(line.sale_id == stop.sale_id for line in live):
            give_back(order, way, None)
        else:
            # Of a cart: the line of this sale; an order has one line per sale.
            line = next(line for line in live if line.sale_id == stop.sale_id)
            key = uuid5(PARTS, f"{stop.pk}-{line.pk}")
            give_back(order, way, Part(line.live, key, stop.sale_id))
    SaleStop.objects.filter(pk=stop.pk).update(found=F("found") + 1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stop has come.

    Attributes:
        done: orders that were given back.
        left: orders that are not given back yet.
        failed: of these, those that were given up, for an operator to look at.
        refunds: refunds that the provider has not confirmed yet.
        refused: refunds that the provider refused.
    """

    done: int
    left: int
    failed: int
    refunds: int
    refused: int


def progress(stop: SaleStop) -> Progress:
    """Return how far a stop has come."""
    refunds = Refund.objects.filter(payment__order__lines__sale=stop.sale_id)
    states = dict(refunds.values_list("state").annotate(Count("pk")))
    failed = OutboxMessage.objects.filter(
        topic=GIVE_BACK, key__startswith=f"{stop.pk}-", dead__isnull=False
    )
    return Progress(
        done=stop.found,
        left=_live(stop).count(),
        failed=failed.count(),
        refunds=states.get(Refund.State.PENDING, 0),
        refused=states.get(Refund.State.FAILED, 0),
    )


def orders_by_status(sale: int) -> Mapping[str, int]:
    """Return how many orders with units of a sale there are, by status."""
    found = Order.objects.filter(pk__in=_with_units(sale)).values_list("status")
    return dict(found.annotate(Count("pk")).order_by())


def _with_units(sale: int) -> QuerySet[Any]:
    lines = OrderLine.objects.filter(sale=sale)
    return lines.exclude(reservation__state=Reservation.State.RELEASED).values("order")


def _live(stop: SaleStop) -> QuerySet[Order]:
    """Return the orders that have units of the stopped sale."""
    return Order.objects.filter(pk__in=_with_units(stop.sale_id), status__in=_statuses(stop))


def _statuses(stop: SaleStop) -> set[str]:
    return set(WAYS) if stop.handed_over else set(WAYS) - {Status.FULFILLED}


def _is_over(stop: SaleStop) -> bool:
    """Return whether no order can come to life any more."""
    fresh = SaleStop.objects.filter(pk=stop.pk, started__gt=Now() - IN_PROGRESS)
    pending = Payment.objects.filter(order__lines__sale=stop.sale_id, state=Payment.State.PENDING)
    return not (fresh.exists() or pending.exists() or _live(stop).exists())


def _read_on(stop: SaleStop, pause: timedelta = timedelta(0)) -> None:
    key = f"{stop.pk}-{stop.round}-{stop.last}"
    outbox.emit_once(READ, {key: {"stop": stop.pk}}, queue=QUEUE, pause=pause)
