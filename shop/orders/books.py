"""Do orders fit the reservations they are made of?"""

from __future__ import annotations

from django.db import connection

MISMATCHES = """
SELECT shop_order.id, shop_order.status, reservation.state, line.quantity, reservation.quantity
FROM shop_order
JOIN shop_orderline AS line ON line.order_id = shop_order.id
JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
WHERE (%(items)s::bigint[] IS NULL OR reservation.item_id = ANY(%(items)s))
  AND ((reservation.state, shop_order.status) NOT IN (
           ('held', 'awaiting_payment'), ('confirmed', 'paid'), ('released', 'expired'),
           ('released', 'cancelled'), ('released', 'refunded'))
       OR line.quantity <> reservation.quantity
       OR line.sale_id <> reservation.scope
       OR shop_order.buyer_id <> reservation.buyer)
ORDER BY shop_order.id LIMIT 1000
"""


def mismatches(items: list[int] | None = None) -> list[str]:
    """Orders that do not fit their reservations, one sentence each.

    Args:
        items: ids of items; None for all.
    """
    with connection.cursor() as cursor:
        cursor.execute(MISMATCHES, {"items": items})
        return [
            f"order {pk} is {status} for {ordered}, its reservation {state} for {reserved}"
            for pk, status, state, ordered, reserved in cursor.fetchall()
        ]
