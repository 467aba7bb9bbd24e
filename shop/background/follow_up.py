"""Follow up orders: enqueue their mails, and expire those that are not paid.

In a shop that takes no payments, an order is confirmed here.

A mail is recorded in the transaction that marks the order's message done: one message per order and
kind, however often the order's message is delivered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db.models import Q

from inventory import outbox
from inventory.hooks import FOLLOW_UP, hooks
from shop import orders, payments
from shop.background import expiry
from shop.mails.rendering import Kind
from shop.mails.sending import enqueue, send_mails
from shop.orders.models import Order, OrderEvent

Event = OrderEvent.Kind


def _mails(kind: Kind) -> Callable[[Any], None]:
    def handle(payload: Any) -> None:
        hooks.failpoint(FOLLOW_UP)
        enqueue(kind, payload["orders"])

    return handle


def _opened(payload: Any) -> None:
    if not settings.PAYMENT_PROVIDER:
        for order in Order.objects.filter(pk__in=payload["orders"]).order_by("pk"):
            with suppress(orders.WrongState):  # cancelled, or confirmed by its buyer, meanwhile
                payments.accept_nothing(order)
        return
    _mails(Kind.CONFIRMATION)(payload)
    expiry.enter(payload["orders"])


def _settled(payload: Any) -> None:
    expiry.leave(payload["orders"])


def _paid(payload: Any) -> None:
    found = payload["orders"]
    if settings.PAYMENT_PROVIDER:
        # One that was free from the beginning: its confirmation says all.
        cost_something = Q(lines__amount__gt=0) | Q(fees__isnull=False)
        charged = Order.objects.filter(cost_something, pk__in=found).distinct()
        found = list(charged.values_list("pk", flat=True))
    _mails(Kind.PAID)({**payload, "orders": found})
    _settled(payload)


def _cancelled(payload: Any) -> None:
    cancelled = OrderEvent.objects.filter(order__in=payload["orders"], kind=Event.CANCELLED)
    by_staff = cancelled.exclude(actor="").values_list("order", flat=True)
    _mails(Kind.CANCELLED)({**payload, "orders": list(by_staff)})
    _settled(payload)


def _held(payload: Any) -> None:
    expiry.enter(payload["orders"])


def _nothing(payload: Any) -> None:
    """Do nothing; a real shop would notify its warehouse here."""


HANDLERS = {orders.topic(event): _nothing for event in Event} | {
    orders.OPENED: _opened,
    orders.topic(Event.PAID): _paid,
    orders.topic(Event.PAID_LATE): _paid,
    orders.topic(Event.CANCELLED): _cancelled,
    orders.topic(Event.EXTENDED): _held,
    orders.topic(Event.EXPIRED): _mails(Kind.EXPIRED),
    orders.topic(Event.REFUNDED): _mails(Kind.REFUNDED),
    orders.topic(Event.MONEY_OWED): _mails(Kind.TOO_LATE),
}
"""Handlers by topic of the outbox message."""


def follow_up() -> int:
    """Deliver the outbox with its mails; return the number of messages done, without the mails."""
    done = deliver()
    while send_mails():
        pass
    return done


def deliver(seconds: float = math.inf) -> int:
    """Deliver the outbox without its mails for at most that long; return the number done."""
    return outbox.deliver(HANDLERS, seconds=seconds)
