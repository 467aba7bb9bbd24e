"""The audit's report, all comparisons in one; and its alerts, one open alert per problem."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from inventory.audit import Book, audit
from inventory.models import OutboxMessage, Reservation
from shop.audit import invoices, money
from shop.mails import sending
from shop.payments.models import Payment, Refund
from shop.payments.provider import PaymentUnknown

HOLDS = timedelta(minutes=1)
"""The sweep runs every five seconds."""

FOLLOW_UPS = timedelta(minutes=5)
"""Messages are handled within seconds or put off; those put off are not counted."""

MONEY = timedelta(minutes=15)
"""A provider may be unreachable for a while; after this long an operator should look."""

# The reservation states that fit each order status. In an order of several lines, some may have
# been given back while the order is unpaid or paid; at least one is left.
MISMATCHES = f"""
SELECT shop_order.id, shop_order.status, min(reservation.state), max(reservation.state)
FROM shop_order
JOIN shop_orderline AS line ON line.order_id = shop_order.id
JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
WHERE %(items)s::bigint[] IS NULL OR shop_order.id = {money.OF_ITEMS}
GROUP BY shop_order.id
HAVING NOT CASE
    WHEN shop_order.status = 'awaiting_payment'
        THEN bool_or(reservation.state = 'held') AND NOT bool_or(reservation.state = 'confirmed')
    WHEN shop_order.status IN ('paid', 'fulfilled')
        THEN bool_or(reservation.state = 'confirmed') AND NOT bool_or(reservation.state = 'held')
    ELSE bool_and(reservation.state = 'released') END
    OR bool_or(line.quantity <> reservation.quantity)
    OR bool_or(line.sale_id <> reservation.scope)
    OR bool_or(shop_order.buyer_id <> reservation.buyer)
ORDER BY shop_order.id LIMIT 1000
"""


@dataclass(slots=True)
class Report:
    """The findings of one audit.

    Attributes:
        items: a book for each item.
        problems: one sentence per contradiction, which only a bug can explain.
        overdue: one sentence per kind of overdue work.
        unchecked: what could not be compared, and why.
    """

    items: list[Book] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Whether no comparison found a contradiction."""
        return not self.problems


def examine(items: list[int] | None = None) -> Report:
    """Run all comparisons while the shop keeps selling.

    Args:
        items: ids of items, to check only their sales; None for all.
    """
    books = audit(items)
    report = Report(books.items, [*books.problems, *mismatches(items), *money.wrong_fees(items)])
    report.overdue = [*overdue(items), *money.discrepancies(items, contradictions=False)]
    report.problems += money.discrepancies(items, contradictions=True)
    report.problems += invoices.wrong_invoices(items)
    if not settings.PAYMENT_PROVIDER:
        return report
    report.problems += money.unpaid(items)
    try:
        report.problems += money.against_the_provider(items)
    except PaymentUnknown as error:
        report.unchecked.append(f"payments against the provider's ledger: {error}")
    return report


def mismatches(items: list[int] | None = None) -> list[str]:
    """List orders that contradict their reservations, one sentence each.

    Args:
        items: ids of items; None for all.
    """
    with connection.cursor() as cursor:
        cursor.execute(MISMATCHES, {"items": items})
        return [
            f"order {pk} is {status}, which does not fit its reservations ({first} … {last})"
            for pk, status, first, last in cursor.fetchall()
        ]


def overdue(items: list[int] | None = None) -> list[str]:
    """List overdue work, one sentence per kind.

    Args:
        items: ids of items, to check only their sales; None for all.
    """
    holds = Reservation.objects.filter(state=Reservation.State.HELD, deadline__lt=Now() - HOLDS)
    late = Now() - MONEY
    payments = Payment.objects.filter(state=Payment.State.PENDING, created__lt=late)
    refunds = Refund.objects.filter(state=Refund.State.PENDING, created__lt=late)
    refused = Refund.objects.filter(state=Refund.State.FAILED)
    if items is not None:
        lines = "order__lines__reservation__item__in"
        holds = holds.filter(item__in=items)
        payments = payments.filter(**{lines: items}).distinct()
        refunds = refunds.filter(**{f"payment__{lines}": items}).distinct()
        refused = refused.filter(**{f"payment__{lines}": items}).distinct()
    counts: dict[str, QuerySet[Any]] = {
        "{} reservations are held past their deadline": holds,
        "{} payments have been pending for too long": payments,
        "{} refunds have been pending for too long": refunds,
        "{} refunds were refused by the provider": refused,
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


class Alert(models.Model):
    """A problem, open until an audit no longer finds it."""

    key = models.CharField(max_length=300, help_text="the problem without its figures")
    text = models.TextField()
    opened = models.DateTimeField(db_default=Now())
    seen = models.DateTimeField(db_default=Now(), help_text="by the last audit that found it")
    closed = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-opened",)
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=Q(closed__isnull=True), name="shop_alert_one_open"
            ),
        ]

    def __str__(self) -> str:
        return self.text


def raise_alerts(report: Report) -> int:
    """Open, update and close alerts to match the report.

    Closes nothing while a part of the report could not be checked.

    Returns:
        The number of open alerts.
    """
    said = {_key(text): text for text in (*report.problems, *report.overdue)}
    for key, text in said.items():
        Alert.objects.update_or_create({"text": text, "seen": Now()}, key=key, closed=None)
    if not report.unchecked:
        Alert.objects.filter(closed=None).exclude(key__in=said).update(closed=Now())
    return Alert.objects.filter(closed=None).count()


def _key(text: str) -> str:
    """Return the problem's text without changing figures, but with its first number, an id."""
    about, number, rest = (*re.split(r"(\d+)", text, maxsplit=1), "", "")[:3]
    if not about:  # a count of overdue work
        number = "#"
    return (about + number + re.sub(r"\d+", "#", rest))[:300]
