"""What a proof reads of shop, provider and mail server, and changes of a sale's terms."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from itertools import chain
from pathlib import Path
from typing import Any, LiteralString

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min

from lab.mail_server import MESSAGE_ID, NO_ORDER
from loadtest.checker import snapshot
from loadtest.checker.snapshot import Terms
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time
from shop.mails.rendering import Kind
from shop.orders.models import Order
from shop.payments.http_provider import HttpProvider

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
       (extract(epoch FROM hold) * 1000000)::bigint, restock_cancelled, restock_returned,
       (extract(epoch FROM action_hold) * 1000000)::bigint,
       COALESCE((extract(epoch FROM early_starts_at) * 1000000)::bigint, 0), early_code <> ''
FROM shop_sale WHERE id = ANY(%s)
"""
# Whoever left the group during the run is not among them.
EARLY = """
SELECT sale.id::text, member.user_id::text
FROM shop_sale AS sale JOIN accounts_user_groups AS member ON member.group_id = sale.early_group_id
WHERE sale.id = ANY(%s) AND early_starts_at IS NOT NULL
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
# A buyer without an address gets no mail.
BUYERS = """
SELECT id::text, email
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
WHERE sale.id = ANY(%s)
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
WHERE place.draw_id = ANY(%s)
"""
# Winners who are still to be drawn, or may still give up.
DRAWS_OWED = """
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


def lines(sales: Sequence[int]) -> Iterator[str]:
    """The lines of a snapshot of sales, all of it from one moment, read as they are asked for."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        drawn = set(sales) - set(without_draws(sales))
        tables = chain(_rows(TABLES, without_draws(sales)), _rows(OF_DRAWS, sorted(drawn)))
        yield from snapshot.lines(_header(), chain(LIFECYCLE, tables))


def items(sales: Sequence[int]) -> list[snapshot.Item]:
    """The items of sales, all from one moment."""
    return list(_rows(TABLES[:1], sales))


def owed(sales: Sequence[int]) -> int:
    """What is still to come for sales: mails, payments, refunds, messages, expiries, winners."""
    with connection.cursor() as cursor:
        cursor.execute(OWED, [without_draws(sales)])
        of_sales = int(cursor.fetchone()[0])
        cursor.execute(DRAWS_OWED, {"sales": list(sales)})
        return of_sales + int(cursor.fetchone()[0])


def without_draws(sales: Sequence[int]) -> list[int]:
    """Return those of these sales that sell to the first who come."""
    drawn = Sale.objects.filter(pk__in=sales, kind=Sale.Kind.DRAW).values_list("pk", flat=True)
    return [sale for sale in sales if sale not in set(drawn)]


def _header() -> snapshot.Header:
    before = time.monotonic_ns()
    moment = clock()
    # Between the two; no closer bound is known.
    return snapshot.Header((before + time.monotonic_ns()) // 2, FOLLOW_UP, moment)


def _rows(
    tables: tuple[tuple[type[Any], LiteralString], ...], sales: Sequence[int]
) -> Iterator[Any]:
    for kind, statement in tables:
        # One that stays in the server where it can: a table may be larger than memory.
        in_parts = connection.in_atomic_block
        with connection.chunked_cursor() if in_parts else connection.cursor() as cursor:
            named = "%(sales)s" in statement
            cursor.execute(statement, {"sales": list(sales)} if named else [list(sales)])
            for row in cursor:
                yield kind(*row)


class NoMailServer(RuntimeError):
    """This shop's mails go elsewhere."""


def delivery_lines(sales: Sequence[int]) -> Iterator[str]:
    """Return the mails about the orders of these sales, in the form of a snapshot.

    Also those, since the first of these orders, about orders that the shop does not have, or about
    none that can be read. Mails about other orders are left out.

    Args:
        sales: their ids.

    Raises:
        NoMailServer: there is no folder of mails; before the first line.
    """
    folder = Path(settings.MAIL_FOLDER)
    if not folder.is_dir():
        raise NoMailServer(f"no mail server has kept anything in {folder}")
    rows = (row for path in _files(folder, sales) for row in _served_meanwhile(path))
    return snapshot.lines(snapshot.Header(time.monotonic_ns()), rows)


def _files(folder: Path, sales: Sequence[int]) -> list[Path]:
    found: dict[int, list[Path]] = {}
    for path in folder.glob("*.eml"):
        found.setdefault(int(path.name.partition(".")[0]), []).append(path)
    own = Order.objects.filter(lines__sale__in=sales)
    orders = set(own.values_list("pk", flat=True))
    unread = found.pop(NO_ORDER, [])
    strange = _unknown(found, orders)
    first = own.aggregate(first=Min("created"))["first"]
    since = first.timestamp() if first else math.inf
    return [
        *chain.from_iterable(found.get(order, ()) for order in orders | strange),
        *(path for path in unread if path.stat().st_mtime >= since),
    ]


def _served_meanwhile(path: Path) -> Iterator[snapshot.Delivery]:
    """Let the process serve others before each mail: gunicorn ends one that seems to hang."""
    time.sleep(0)
    return _deliveries(path)


def _deliveries(path: Path) -> Iterator[snapshot.Delivery]:
    with path.open("rb") as file:
        mail = BytesParser(EmailMessage, policy=default).parse(file)
    message = str(mail["Message-ID"] or "").strip()
    named = MESSAGE_ID.fullmatch(message)
    body = mail.get_body(("plain",))
    text = body.get_content() if body is not None else ""
    for recipient in mail.get_all("Delivered-To", []):
        yield snapshot.Delivery(
            message=message,
            recipient=str(recipient),
            # A long one is folded, which may begin with a line of its own.
            subject=str(mail["Subject"] or "").strip(),
            text=text,
            name=named[1] if named else "",
            order=named[2] if named else "",
        )


def ledger_rows(orders: Collection[int]) -> Iterator[str]:
    """What the provider moved for these orders, in the form of a snapshot.

    Also what it moved, since the first of them, for orders that are not in the shop at all: money
    without an order is what must not be. Other sales' money is left out, as their orders are.

    Args:
        orders: ids.

    Raises:
        PaymentUnknown: the provider does not tell, or not all of it; before the first line.
    """
    moved = list(HttpProvider().ledger())
    wanted = _unknown((line.order for line in moved), orders).union(orders)
    rows = (
        snapshot.Payment(str(each.id), str(each.order), each.operation, each.amount, each.currency)
        for each in moved
        if each.order in wanted
    )
    return snapshot.lines(snapshot.Header(time.monotonic_ns()), rows)


def _unknown(named: Iterable[int], orders: Collection[int]) -> set[int]:
    """Return what names no order of the shop, from the first of these orders on."""
    strange = {order for order in named if order >= min(orders, default=0)}
    return strange - set(Order.objects.filter(pk__in=strange).values_list("pk", flat=True))


LASTS = timedelta(hours=3)
"""Of a sale for a load test: less than a faulty clock is stepped by. Judged by that clock, the sale
would be over, or not begun."""


_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def change(
    sale: int,
    *,
    price: int | None = None,
    paused: bool | None = None,
    starts_in: float | None = None,
    ends_in: float | None = None,
) -> Terms:
    """Change a sale as the admin does: its row, and nothing that remembers it.

    Args:
        sale: its id.
        price: of one unit, in minor units.
        paused: whether nothing is sold.
        starts_in: seconds from now, by the database's clock; negative for the past.
        ends_in: likewise.

    Returns:
        The terms after it. If nothing is given, those there are.

    Raises:
        ValidationError: they do not fit each other; nothing was changed.
    """
    with transaction.atomic():
        # Two changes at once would each write the other's old values back.
        changed = Sale.objects.select_for_update(no_key=True).get(pk=sale)
        now = database_time()
        if price is not None:
            changed.price = price
        if paused is not None:
            changed.paused = paused
        if starts_in is not None:
            changed.starts_at = now + timedelta(seconds=starts_in)
        if ends_in is not None:
            changed.ends_at = now + timedelta(seconds=ends_in)
        if (price, paused, starts_in, ends_in) != (None, None, None, None):
            changed.full_clean()
            changed.save()
        asked = clock()
    return Terms(
        sale=str(sale),
        asked=asked,
        done=clock(),
        price=changed.price,
        starts_at=_microseconds(changed.starts_at),
        ends_at=_microseconds(changed.ends_at),
        paused=changed.paused,
    )


def clock() -> int:
    """Return the time of the database's clock at this moment, in microseconds since 1970."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return _microseconds(cursor.fetchone()[0])


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
