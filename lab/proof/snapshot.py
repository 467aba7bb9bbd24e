"""What a proof reads of shop, provider and mail server, and changes of a sale's terms."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from itertools import chain
from pathlib import Path
from typing import cast

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min
from psycopg import Connection

from lab.mail_server import MESSAGE_ID, NO_ORDER
from loadtest.checker import snapshot
from loadtest.checker.snapshot import Terms
from loadtest.shops.flash_sale import books
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time
from shop.orders.models import Order
from shop.payments.http_provider import HttpProvider


def lines(sales: Sequence[int]) -> Iterator[str]:
    """The lines of a snapshot of sales, all of it from one moment, read as they are asked for."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with _database() as database:
            yield from books.lines(database, sales)


def items(sales: Sequence[int]) -> list[snapshot.Item]:
    """The items of sales, all from one moment."""
    with _database() as database:
        return books.items(database, sales)


def pending(sales: Sequence[int]) -> int:
    """What is still to come for sales: mails, payments, refunds, messages, expiries, winners."""
    with _database() as database:
        return books.pending(database, sales)


def without_draws(sales: Sequence[int]) -> list[int]:
    """Return those of these sales that sell to the first who come."""
    with _database() as database:
        drawn = books.drawn_of(database, sales)
    return [sale for sale in sales if sale not in drawn]


def clock() -> int:
    """Return the time of the database's clock at this moment, in microseconds since 1970."""
    with _database() as database:
        return books.clock(database)


@contextmanager
def _database() -> Iterator[Connection]:
    """Lend the connection that Django holds; its errors are Django's, as for any other query."""
    with connection.wrap_database_errors:
        connection.ensure_connection()
        yield cast(Connection, connection.connection)


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
        snapshot.Payment(
            str(payment.id), str(payment.order), payment.operation, payment.amount, payment.currency
        )
        for payment in moved
        if payment.order in wanted
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


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
