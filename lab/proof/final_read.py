"""What the provider moved and which mails came, as lines for the checker."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.db.models import Min

from lab.mail_server import MESSAGE_ID, NO_ORDER
from loadtest.checker import snapshot
from shop.orders.models import Order
from shop.payments.http_provider import LedgerLine, ledger_lines


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
    rows = (row for path in _files(folder, sales) for row in _deliveries(path))
    return snapshot.lines(snapshot.Header(time.monotonic_ns()), rows)


def _files(folder: Path, sales: Sequence[int]) -> list[Path]:
    found: dict[int, list[Path]] = {}
    for path in folder.glob("*.eml"):
        found.setdefault(int(path.name.partition(".")[0]), []).append(path)
    own = Order.objects.filter(lines__sale__in=sales)
    orders = set(own.values_list("pk", flat=True))
    unread = found.pop(NO_ORDER, [])
    strange = {order for order in found if order >= min(orders, default=0)}
    strange -= set(Order.objects.filter(pk__in=strange).values_list("pk", flat=True))
    first = own.aggregate(first=Min("created"))["first"]
    since = first.timestamp() if first else math.inf
    return [
        *chain.from_iterable(found.get(order, ()) for order in orders | strange),
        *(path for path in unread if path.stat().st_mtime >= since),
    ]


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
    moved = list(ledger_lines())
    strange = {line.order for line in moved if line.order >= min(orders, default=0)}
    strange -= set(Order.objects.filter(pk__in=strange).values_list("pk", flat=True))
    wanted = strange.union(orders)
    rows = (_payment(line) for line in moved if line.order in wanted)
    return snapshot.lines(snapshot.Header(time.monotonic_ns()), rows)


def _payment(line: LedgerLine) -> snapshot.Payment:
    return snapshot.Payment(
        str(line.id), str(line.order), line.operation, line.amount, line.currency
    )
