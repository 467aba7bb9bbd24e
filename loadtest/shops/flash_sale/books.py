"""The books of our shop as SQL, read over any connection to its database, also a read-only one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.pq import TransactionStatus

from loadtest.checker import snapshot
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE

FOLLOW_UP = ("confirmation",)
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
WHERE item.id IN (SELECT item_id FROM shop_sale WHERE id = ANY(%(sales)s))
GROUP BY item.id
"""
# Times and durations are exact: extract() is of type numeric.
SALE = """
SELECT id::text, item_id::text, "limit", price, currency,
       (extract(epoch FROM hold) * 1000000)::bigint, restock_cancelled, restock_returned,
       (extract(epoch FROM action_hold) * 1000000)::bigint,
       COALESCE((extract(epoch FROM early_starts_at) * 1000000)::bigint, 0), early_code <> ''
FROM shop_sale WHERE id = ANY(%(sales)s)
"""
# A buyer who left the group during the run is not among them.
EARLY = """
SELECT sale.id::text, member.user_id::text
FROM shop_sale AS sale JOIN accounts_user_groups AS member ON member.group_id = sale.early_group_id
WHERE sale.id = ANY(%(sales)s) AND early_starts_at IS NOT NULL
"""
RESERVATIONS = """
SELECT id::text, item_id::text, buyer::text, key::text, quantity, state, returned,
       (extract(epoch FROM deadline) * 1000000)::bigint
FROM inventory_reservation WHERE scope = ANY(%(sales)s)
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
WHERE sale_id = ANY(%(sales)s)
"""
EVENTS = """
SELECT event.id, event.order_id::text, event.kind,
       (extract(epoch FROM event.created) * 1000000)::bigint,
       COALESCE(event.amount, 0), COALESCE(event.quantity, 0), COALESCE(line.sale_id::text, '')
FROM shop_orderevent AS event
LEFT JOIN shop_orderline AS line ON line.reservation_id = event.line_id
WHERE event.order_id IN (SELECT order_id FROM shop_orderline WHERE sale_id = ANY(%(sales)s))
"""
# A buyer without an address gets no mail.
BUYERS = """
SELECT id::text, email
FROM accounts_user
WHERE id IN (SELECT buyer_id FROM shop_order JOIN shop_orderline ON order_id = shop_order.id
              WHERE sale_id = ANY(%(sales)s))
"""
MOVEMENTS = """
SELECT id, item_id::text, delta, reason, COALESCE(token, 0)
FROM inventory_stockmovement
WHERE item_id IN (SELECT item_id FROM shop_sale WHERE id = ANY(%(sales)s))
"""
# `key <> ''` lets PostgreSQL use the index of keys.
EFFECTS = """
SELECT key, substr(topic, 7), count(*)
FROM inventory_outboxmessage
WHERE key IN (SELECT order_id::text FROM shop_orderline WHERE sale_id = ANY(%(sales)s))
  AND key <> '' AND topic LIKE 'mails.%%' AND done IS NOT NULL GROUP BY 1, 2
"""
# A message names its orders; it belongs to the sale if one of them does.
OUTBOX = """
SELECT DISTINCT message.id::text, message.topic, message.done IS NOT NULL
FROM inventory_outboxmessage AS message
CROSS JOIN LATERAL jsonb_array_elements_text(message.payload -> 'orders') AS told (id)
JOIN shop_orderline AS line ON line.order_id = told.id::bigint
WHERE sale_id = ANY(%(sales)s)
"""
# Money too: what the payment provider says later moves an order, and that has its own follow-up.
# And orders that expire before the final read can have been made: their mails follow.
PENDING = """
WITH own AS (SELECT DISTINCT order_id AS id FROM shop_orderline WHERE sale_id = ANY(%(sales)s))
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

DRAWS = """
SELECT sale.id::text, item.total, item.available,
       (extract(epoch FROM starts_at) * 1000000)::bigint,
       (extract(epoch FROM ends_at) * 1000000)::bigint,
       encode(commitment, 'hex'), source,
       COALESCE((extract(epoch FROM closed) * 1000000)::bigint, 0), lines,
       CASE WHEN closed IS NULL THEN '' ELSE encode(head, 'hex') END,
       COALESCE(encode(seed, 'hex'), ''), public_value
FROM draws_draw JOIN shop_sale AS sale ON sale.id = sale_id
JOIN inventory_item AS item ON item.id = sale.item_id
WHERE sale.id = ANY(%(sales)s)
"""
ENTRIES = """
SELECT draw_id::text, number, buyer_id::text, encode(hash, 'hex'),
       (extract(epoch FROM created) * 1000000)::bigint, encode(mark, 'hex'), 0::bigint
FROM draws_entry WHERE draw_id = ANY(%(sales)s)
UNION ALL
SELECT draw_id::text, withdrawal, buyer_id::text, encode(withdrawal_hash, 'hex'), 0, '', number
FROM draws_entry WHERE draw_id = ANY(%(sales)s) AND withdrawal IS NOT NULL
"""
# A winner who pays late may get a unit again that went back and nobody has taken.
WINS = """
SELECT place.draw_id::text, entry.number, place.order_id::text, reservation.quantity,
       (extract(epoch FROM won.created) * 1000000)::bigint,
       COALESCE((SELECT (extract(epoch FROM max(created)) * 1000000)::bigint
                 FROM shop_orderevent AS event WHERE event.order_id = won.id
                 AND kind IN ('expired', 'cancelled', 'returned')), 0),
       COALESCE((SELECT (extract(epoch FROM max(created)) * 1000000)::bigint
                 FROM shop_orderevent AS event WHERE event.order_id = won.id
                 AND kind = 'paid_late'), 0)
FROM draws_place AS place JOIN draws_entry AS entry ON entry.id = place.entry_id
JOIN shop_order AS won ON won.id = place.order_id
JOIN shop_orderline AS line ON line.order_id = won.id
JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
WHERE place.draw_id = ANY(%(sales)s)
"""
# Winners who are still to be drawn, or may still give up.
DRAWS_PENDING = """
SELECT (SELECT count(*) FROM draws_draw JOIN shop_sale AS sale ON sale.id = sale_id
        JOIN inventory_item AS item ON item.id = sale.item_id
        WHERE sale_id = ANY(%(sales)s)
          AND (places IS NULL OR (offered < places AND available > 0)))
     + (SELECT count(*) FROM draws_place AS place JOIN shop_order ON shop_order.id = order_id
        WHERE draw_id = ANY(%(sales)s) AND status = 'awaiting_payment')
     + (SELECT count(*) FROM draws_place AS place JOIN shop_payment USING (order_id)
        WHERE draw_id = ANY(%(sales)s) AND state = 'pending')
"""

TABLES: tuple[tuple[type[Any], LiteralString], ...] = (
    (snapshot.Item, ITEM),
    (snapshot.Sale, SALE),
    (snapshot.Early, EARLY),
    (snapshot.Reservation, RESERVATIONS),
    (snapshot.Order, ORDERS),
    (snapshot.Event, EVENTS),
    (snapshot.Buyer, BUYERS),
    (snapshot.Movement, MOVEMENTS),
    (snapshot.Effect, EFFECTS),
    (snapshot.Outbox, OUTBOX),
)

# Orders of a draw are its winners': nobody asked for them under a key.
OF_DRAWS: tuple[tuple[type[Any], LiteralString], ...] = (
    (snapshot.Draw, DRAWS),
    (snapshot.Entry, ENTRIES),
    (snapshot.Win, WINS),
)

_DRAWN = "SELECT id FROM shop_sale WHERE id = ANY(%(sales)s) AND kind = 'draw'"
_CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

Tables = tuple[tuple[type[Any], LiteralString], ...]


def lines(database: Connection, sales: Sequence[int], tables: Tables = TABLES) -> Iterator[str]:
    """Yield the lines of a snapshot of sales, read as they are asked for.

    Args:
        database: in a transaction of level REPEATABLE READ, so that all of it is from one moment.
        sales: their ids.
        tables: what to read of the sales that are no draws.
    """
    drawn = drawn_of(database, sales)
    others = [sale for sale in sales if sale not in drawn]
    found = chain(rows(database, tables, others), rows(database, OF_DRAWS, sorted(drawn)))
    yield from snapshot.lines(_header(database), chain(LIFECYCLE, found))


def items(database: Connection, sales: Sequence[int]) -> list[snapshot.Item]:
    """Return the items of sales, all from one moment."""
    return list(rows(database, TABLES[:1], sales))


def pending(database: Connection, sales: Sequence[int]) -> int:
    """Count what is still to come: mails, payments, refunds, messages, expiries, winners."""
    drawn = drawn_of(database, sales)
    others = [sale for sale in sales if sale not in drawn]
    [of_sales] = database.execute(PENDING, {"sales": others}).fetchone() or [0]
    [of_draws] = database.execute(DRAWS_PENDING, {"sales": list(sales)}).fetchone() or [0]
    return int(of_sales) + int(of_draws)


def drawn_of(database: Connection, sales: Sequence[int]) -> set[int]:
    """Return those of these sales that draw their buyers."""
    return {sale for (sale,) in database.execute(_DRAWN, {"sales": list(sales)})}


def clock(database: Connection) -> int:
    """Return the time of the database's clock at this moment, in microseconds since 1970."""
    [now] = database.execute(_CLOCK).fetchone() or [0]
    return int(now)


def rows(database: Connection, tables: Tables, sales: Sequence[int]) -> Iterator[Any]:
    """Yield the rows of tables, as the checker knows them."""
    # In a transaction, what was read stays in the server: a table may be larger than memory.
    in_parts = database.info.transaction_status == TransactionStatus.INTRANS
    for kind, statement in tables:
        with database.cursor(name="books") if in_parts else database.cursor() as cursor:
            cursor.execute(statement, {"sales": list(sales)})
            for row in cursor:
                yield kind(*row)


def _header(database: Connection) -> snapshot.Header:
    before = time.monotonic_ns()
    moment = clock(database)
    # Between the two; no closer bound is known.
    return snapshot.Header((before + time.monotonic_ns()) // 2, FOLLOW_UP, moment)
