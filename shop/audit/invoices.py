"""Compare invoices and credit notes with their numbers, their orders and the refunds."""

from __future__ import annotations

from django.db import connection

from shop.audit.money import OF_ITEMS
from shop.money import plain

# One statement, so that the numbers and the last one drawn are of the same moment.
GAPS = """
SELECT drawn.name, drawn.last, count(invoice.id),
       (SELECT min(number) FROM generate_series(1, drawn.last) AS number
        WHERE NOT EXISTS (SELECT 1 FROM shop_invoice AS other
                          WHERE other.series = drawn.name AND other.number = number.number))
FROM (
    SELECT name, last FROM shop_invoiceseries
    UNION ALL
    SELECT DISTINCT series, 0::bigint FROM shop_invoice
    WHERE series NOT IN (SELECT name FROM shop_invoiceseries)
) AS drawn
LEFT JOIN shop_invoice AS invoice ON invoice.series = drawn.name
GROUP BY drawn.name, drawn.last
HAVING count(invoice.id) <> drawn.last OR max(invoice.number) > drawn.last
ORDER BY drawn.name
"""

# What is invoiced is what the order was paid with; what is credited is at least what went back, and
# at most what was invoiced. A refund that failed after its credit note leaves the note: the refund
# is tried again.
AMOUNTS = f"""
SELECT shop_order.id, shop_order.currency, shop_order.amount, documents.invoiced,
       documents.credited, COALESCE(refunds.done, 0)
FROM (
    SELECT order_id, sum(amount) FILTER (WHERE series = 'invoice')::bigint AS invoiced,
           COALESCE(sum(amount) FILTER (WHERE series = 'credit_note'), 0)::bigint AS credited
    FROM shop_invoice GROUP BY order_id
) AS documents
JOIN shop_order ON shop_order.id = documents.order_id
LEFT JOIN LATERAL (
    SELECT sum(refund.amount)::bigint AS done FROM shop_refund AS refund
    JOIN shop_payment AS payment ON payment.id = refund.payment_id
    WHERE payment.order_id = shop_order.id AND refund.state = 'done'
      AND refund.reason NOT IN ('too_late', 'too_much')
) AS refunds ON true
WHERE (documents.invoiced IS DISTINCT FROM shop_order.amount
       OR documents.credited > documents.invoiced
       OR documents.credited < COALESCE(refunds.done, 0))
  AND (%(items)s::bigint[] IS NULL OR shop_order.id = {OF_ITEMS})
ORDER BY shop_order.id LIMIT 1000
"""


def wrong_invoices(items: list[int] | None = None) -> list[str]:
    """List gaps in the numbers, and orders whose invoices do not fit them.

    Args:
        items: ids of items, to look only at their orders; None for all, and the numbers.
    """
    found = []
    with connection.cursor() as cursor:
        if items is None:
            cursor.execute(GAPS)
            found += [
                f"{last} numbers of the series {name} were drawn, and {count} are used; "
                f"the first that is missing is {missing or 'none'}"
                for name, last, count, missing in cursor.fetchall()
            ]
        cursor.execute(AMOUNTS, {"items": items})
        for pk, currency, amount, invoiced, credited, refunded in cursor.fetchall():
            paid, billed, back, refunds = (
                plain(value or 0, currency) for value in (amount, invoiced, credited, refunded)
            )
            found.append(
                f"order {pk} was paid with {paid}, of which {refunds} were refunded; it is "
                f"invoiced with {billed}, of which {back} are credited"
            )
    return found
