"""What the mail server took, as a file that the checker judges (P19)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
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


class NoMailServer(RuntimeError):
    """This shop's mails go elsewhere."""


def write(path: Path, sales: Sequence[int]) -> None:
    """Write the mails about the orders of sales to a file; see ``lines``."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines(sales))


def lines(sales: Sequence[int]) -> Iterator[str]:
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
