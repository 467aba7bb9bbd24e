"""Numbers of invoices and credit notes, without gaps: one for each order that is paid, and one for
each refund of what was invoiced.

A database sequence leaves a gap with each transaction that rolls back. So the last number of a
series is a row, which the transaction that needs a number updates: it rolls back with the
transaction, and the next one waits for its commit. That makes payments commit one after the other
(docs/operations.md says how many a second that allows), so the number is drawn as late as possible.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.db import connection
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from shop.orders.models import Invoice, Order

DRAW = """
INSERT INTO shop_invoiceseries (name, last) VALUES (%(series)s, %(count)s)
ON CONFLICT (name) DO UPDATE SET last = shop_invoiceseries.last + %(count)s
RETURNING last
"""


def issue_invoices(orders: Sequence[int]) -> None:
    """Number the invoices of orders that this transaction has just marked as paid.

    An order that costs nothing gets none.
    """
    if not settings.INVOICES:
        return
    amounts = Order.objects.filter(pk__in=orders, amount__gt=0).order_by("pk")
    _issue(
        Invoice.Series.INVOICE,
        [Invoice(order_id=pk, amount=amount) for pk, amount in amounts.values_list("pk", "amount")],
    )


def issue_credit_note(order: int, amount: int, reference: str) -> None:
    """Number the credit note of a refund, once; the order's row must be locked.

    An order without an invoice gets none: it was paid before there were invoices.

    Args:
        order: its id.
        amount: what went back, in minor units.
        reference: names the refund; another call with it changes nothing.
    """
    notes = Invoice.objects.filter(series=Invoice.Series.CREDIT_NOTE, reference=reference)
    invoices = Invoice.objects.filter(series=Invoice.Series.INVOICE, order=order)
    if invoices.exists() and not notes.exists():
        note = Invoice(order_id=order, amount=amount, reference=reference)
        _issue(Invoice.Series.CREDIT_NOTE, [note])


def credit_what_is_left(orders: Sequence[int]) -> None:
    """Number credit notes for orders that this transaction has just marked as refunded.

    Where money went back, each refund has its own credit note, and nothing is left but fees that
    the shop keeps. In a shop without payments, the whole invoice is left.
    """
    credited = Coalesce(Sum("amount", filter=Q(series=Invoice.Series.CREDIT_NOTE)), 0)
    invoiced = Coalesce(Sum("amount", filter=Q(series=Invoice.Series.INVOICE)), 0)
    rows = Invoice.objects.filter(order__in=orders).values("order", "order__fee_amount")
    for row in rows.annotate(left=invoiced - credited).order_by("order"):
        left = row["left"] - row["order__fee_amount"]
        if left > 0:
            issue_credit_note(row["order"], left, f"order-{row['order']}")


def _issue(series: Invoice.Series, invoices: Sequence[Invoice]) -> None:
    """Give invoices the next numbers of a series, and write them."""
    if not invoices:
        return
    with connection.cursor() as cursor:
        cursor.execute(DRAW, {"series": series.value, "count": len(invoices)})
        (last,) = cursor.fetchone()
    for number, invoice in enumerate(invoices, last - len(invoices) + 1):
        invoice.series, invoice.number = series, number
    Invoice.objects.bulk_create(invoices)
