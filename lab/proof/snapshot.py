"""Snapshots of sales for the checker: all its tables, read at one moment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, LiteralString

from django.db import connection, transaction

from lab.proof import sales
from loadtest.checker import snapshot
from loadtest.shops.flash_sale.specification import LIFECYCLE
from shop.mails.rendering import Kind

FOLLOW_UP = (str(Kind.CONFIRMATION),)
"""What must have taken effect for every order."""

ITEM = """
SELECT item.id::text, item.total, item.available,
       COALESCE(sum(quantity - returned) FILTER (WHERE state = 'held'), 0)::bigint,
       COALESCE(sum(quantity - returned) FILTER (WHERE state = 'confirmed'), 0)::bigint,
       (SELECT COALESCE(sum(delta), 0) FROM inventory_stockmovement
         WHERE item_id = item.id)::bigint,
       item.fence
FROM inventory_item AS item
LEFT JOIN inventory_reservation AS reservation ON reservation.item_id = item.id
WHERE item.id IN (SELECT item_id FROM shop_sale WHERE id = ANY(%s))
GROUP BY item.id
"""
# Times and durations are exact: extract() is of type numeric.
SALE = """
SELECT id::text, item_id::text, "limit", price, currency,
       (extract(epoch FROM hold) * 1000000)::bigint, restock_cancelled, restock_returned
FROM shop_sale WHERE id = ANY(%s)
"""
RESERVATIONS = """
SELECT id::text, item_id::text, buyer::text, key::text, quantity, state, returned,
       (extract(epoch FROM deadline) * 1000000)::bigint
FROM inventory_reservation WHERE scope = ANY(%s)
"""
ORDERS = """
SELECT shop_order.id::text, reservation_id::text, sale_id::text, reservation.item_id::text,
       buyer_id::text, reservation.key::text, line.quantity,
       line.amount, status, (extract(epoch FROM shop_order.created) * 1000000)::bigint,
       shop_order.currency, shop_order.amount, shop_order.refunded,
       (extract(epoch FROM pay_before) * 1000000)::bigint
FROM shop_orderline AS line
JOIN shop_order ON shop_order.id = line.order_id
JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
WHERE sale_id = ANY(%s)
"""
EVENTS = """
SELECT event.id, event.order_id::text, event.kind,
       (extract(epoch FROM event.created) * 1000000)::bigint,
       COALESCE(event.amount, 0), COALESCE(event.quantity, 0), COALESCE(line.sale_id::text, '')
FROM shop_orderevent AS event
LEFT JOIN shop_orderline AS line ON line.reservation_id = event.line_id
WHERE event.order_id IN (SELECT order_id FROM shop_orderline WHERE sale_id = ANY(%s))
"""
# The address is the one that the shop falls back to where a buyer has none.
BUYERS = """
SELECT id::text, COALESCE(NULLIF(email, ''), username || '@localhost')
FROM accounts_user
WHERE id IN (SELECT buyer_id FROM shop_order JOIN shop_orderline ON order_id = shop_order.id
              WHERE sale_id = ANY(%s))
"""
MOVEMENTS = """
SELECT id, item_id::text, delta, reason, COALESCE(token, 0)
FROM inventory_stockmovement WHERE item_id IN (SELECT item_id FROM shop_sale WHERE id = ANY(%s))
"""
# `key <> ''` lets PostgreSQL use the index of keys.
EFFECTS = """
SELECT key, substr(topic, 7), count(*)
FROM inventory_outboxmessage
WHERE key IN (SELECT order_id::text FROM shop_orderline WHERE sale_id = ANY(%s))
  AND key <> '' AND topic LIKE 'mails.%%' AND done IS NOT NULL GROUP BY 1, 2
"""
# A message names its orders; it belongs to the sale if one of them does.
OUTBOX = """
SELECT DISTINCT message.id::text, message.topic, message.done IS NOT NULL
FROM inventory_outboxmessage AS message
CROSS JOIN LATERAL jsonb_array_elements_text(message.payload -> 'orders') AS told (id)
JOIN shop_orderline AS line ON line.order_id = told.id::bigint
WHERE sale_id = ANY(%s)
"""
# Money too: what the payment provider says later moves an order, and that has its own follow-up.
# And orders that expire before the final read can have been made: their mails follow.
OWED = """
WITH own AS (SELECT DISTINCT order_id AS id FROM shop_orderline WHERE sale_id = ANY(%s))
SELECT
    (SELECT count(*) FROM own WHERE NOT EXISTS (
        SELECT FROM inventory_outboxmessage
        WHERE key = own.id::text AND key <> ''
          AND topic = 'mails.confirmation' AND done IS NOT NULL))
    + (SELECT count(*) FROM inventory_outboxmessage JOIN own ON own.id::text = key
        WHERE key <> '' AND topic LIKE 'mails.%%' AND topic <> 'mails.confirmation'
          AND done IS NULL AND dead IS NULL)
    + (SELECT count(*) FROM shop_order JOIN own USING (id)
        WHERE status = 'awaiting_payment' AND pay_before < now() + interval '5 seconds')
    + (SELECT count(*) FROM shop_payment JOIN own ON own.id = order_id WHERE state = 'pending')
    + (SELECT count(*) FROM shop_refund AS refund
        JOIN shop_payment AS payment ON payment.id = refund.payment_id
        JOIN own ON own.id = payment.order_id WHERE refund.state = 'pending')
    + (SELECT count(DISTINCT message.id) FROM inventory_outboxmessage AS message
        CROSS JOIN LATERAL jsonb_array_elements_text(message.payload -> 'orders') AS told (id)
        JOIN own ON own.id = told.id::bigint WHERE message.done IS NULL)
"""

TABLES: tuple[tuple[type[Any], LiteralString], ...] = (
    (snapshot.Item, ITEM),
    (snapshot.Sale, SALE),
    (snapshot.Reservation, RESERVATIONS),
    (snapshot.Order, ORDERS),
    (snapshot.Event, EVENTS),
    (snapshot.Buyer, BUYERS),
    (snapshot.Movement, MOVEMENTS),
    (snapshot.Effect, EFFECTS),
    (snapshot.Outbox, OUTBOX),
)


def lines(sales: Sequence[int]) -> Iterator[str]:
    """The lines of a snapshot of sales, all of it from one moment, read as they are asked for."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield from snapshot.lines(_header(), chain(LIFECYCLE, _rows(TABLES, sales)))


def items(sales: Sequence[int]) -> list[snapshot.Item]:
    """The items of sales, all from one moment."""
    return list(_rows(TABLES[:1], sales))


def owed(sales: Sequence[int]) -> int:
    """What is still to come for sales: mails, payments, refunds, messages, expiries."""
    with connection.cursor() as cursor:
        cursor.execute(OWED, [list(sales)])
        return int(cursor.fetchone()[0])


def _header() -> snapshot.Header:
    before = time.monotonic_ns()
    clock = sales.clock()
    # Between the two; no closer bound is known.
    return snapshot.Header((before + time.monotonic_ns()) // 2, FOLLOW_UP, clock)


def _rows(
    tables: tuple[tuple[type[Any], LiteralString], ...], sales: Sequence[int]
) -> Iterator[Any]:
    for kind, statement in tables:
        # One that stays in the server where it can: a table may be larger than memory.
        in_parts = connection.in_atomic_block
        with connection.chunked_cursor() if in_parts else connection.cursor() as cursor:
            cursor.execute(statement, [list(sales)])
            for row in cursor:
                yield kind(*row)
