"""The audit's report: all comparisons in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings
from django.db import connection

from inventory.audit import Book, audit
from shop.audit import late, money
from shop.payments.provider import PaymentUnknown

# The reservation states that fit each order status. In an order of several lines, some may have
# been given back while the order is unpaid or paid; at least one is left. An array lets the audit
# of one sale use the index of orders; with IN it would read them all.
MISMATCHES = """
SELECT shop_order.id, shop_order.status, min(reservation.state), max(reservation.state)
FROM shop_order
JOIN shop_orderline AS line ON line.order_id = shop_order.id
JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
WHERE %(items)s::bigint[] IS NULL OR shop_order.id = ANY(ARRAY(
    SELECT line.order_id FROM shop_orderline AS line
    JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
    WHERE reservation.item_id = ANY(%(items)s)))
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
        """Tell whether no comparison found a contradiction."""
        return not self.problems


def examine(items: list[int] | None = None) -> Report:
    """Run all comparisons while the shop keeps selling.

    Args:
        items: ids of items, to check only their sales; None for all.
    """
    books = audit(items)
    report = Report(books.items, [*books.problems, *mismatches(items)])
    report.overdue = late.work(items)
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
