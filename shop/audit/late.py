"""Overdue work: nothing is inconsistent yet, but a buyer may be waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from inventory.models import OutboxMessage, Reservation
from shop.mails import sending
from shop.payments.models import Payment, Refund

HOLDS = timedelta(minutes=1)
"""The sweep runs every five seconds."""

FOLLOW_UPS = timedelta(minutes=5)
"""Messages are handled within seconds or put off; those put off are not counted."""

MONEY = timedelta(minutes=15)
"""A provider may be unreachable for a while; after this long an operator should look."""


def work(items: list[int] | None = None) -> list[str]:
    """List overdue work, one sentence per kind.

    Args:
        items: ids of items, to check only their sales; None for all.
    """
    counts = {
        "{} reservations are held past their deadline": _overdue_holds(items),
        "{} payments have been pending for too long": _pending(Payment.objects.all(), items, ""),
        "{} refunds have been pending for too long": _pending(
            Refund.objects.all(), items, "payment__"
        ),
        "{} refunds were refused by the provider": _of(
            Refund.objects.filter(state=Refund.State.FAILED), items, "payment__"
        ),
    }
    if items is None:
        messages, mail = OutboxMessage.objects.filter(done=None), Q(queue=sending.QUEUE)
        waiting = messages.filter(dead=None, not_before__lt=Now() - FOLLOW_UPS)
        counts |= {
            "{} messages of the outbox are dead": messages.filter(~mail, dead__isnull=False),
            "{} messages of the outbox wait": waiting.filter(~mail),
            "{} mails are dead": messages.filter(mail, dead__isnull=False),
            "{} mails wait": waiting.filter(mail),
        }
    found = ((sentence, rows.count()) for sentence, rows in counts.items())
    return [sentence.format(count) for sentence, count in found if count]


def _overdue_holds(items: list[int] | None) -> QuerySet[Reservation]:
    held = Reservation.objects.filter(state=Reservation.State.HELD, deadline__lt=Now() - HOLDS)
    return held if items is None else held.filter(item__in=items)


def _pending(rows: QuerySet[Any], items: list[int] | None, path: str) -> QuerySet[Any]:
    return _of(rows.filter(state="pending", created__lt=Now() - MONEY), items, path)


def _of(rows: QuerySet[Any], items: list[int] | None, path: str) -> QuerySet[Any]:
    if items is None:
        return rows
    lines = f"{path}order__lines__reservation__item__in"
    return rows.filter(Q(**{lines: items})).distinct()
