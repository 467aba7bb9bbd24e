"""The final read of a proof: the database, the provider and the mails, as files for the checker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterator, Sequence
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import Error
from django.db.models import Min

from lab.mail_server import MESSAGE_ID, NO_ORDER
from lab.proof.snapshot import write as write_snapshot
from loadtest.checker import snapshot
from shop.orders.models import Order
from shop.payments.http_provider import LedgerLine, ledger_lines
from shop.payments.provider import PaymentUnknown

if TYPE_CHECKING:
    from loadtest.steps import RunFiles  # which needs psutil; the demo's image has none

log = logging.getLogger(__name__)


def read(sales: Sequence[int], files: RunFiles) -> str:
    """Write the final state of these sales: why it could not be read; empty if it was."""
    try:
        write_snapshot(files.final, sales)
    except Error as error:
        files.final.unlink(missing_ok=True)
        return f"no final read: {error}"
    _write_ledger(sales, files)
    _write_deliveries(sales, files)
    return ""


def _write_ledger(sales: Sequence[int], files: RunFiles) -> None:
    """Write what the payment provider moved, or nothing if it does not say: P11 is then unknown."""
    orders = Order.objects.filter(lines__sale__in=sales).values_list("pk", flat=True)
    try:
        write_ledger(files.ledger, set(orders))
    except PaymentUnknown as error:
        files.ledger.unlink(missing_ok=True)
        log.warning("%s", error)


def _write_deliveries(sales: Sequence[int], files: RunFiles) -> None:
    """Write which mails were delivered, or nothing if they go elsewhere: P19 is then unknown."""
    try:
        write_deliveries(files.deliveries, sales)
    except (NoMailServer, Error) as error:
        files.deliveries.unlink(missing_ok=True)
        log.warning("%s", error)


class NoMailServer(RuntimeError):
    """This shop's mails go elsewhere."""


def write_deliveries(path: Path, sales: Sequence[int]) -> None:
    """Write the mails about the orders of sales to a file; see ``delivery_lines``."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(delivery_lines(sales))


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


def write_ledger(path: Path, orders: Collection[int]) -> None:
    """Write what the provider moved for orders to a file; see ``ledger_rows``."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(ledger_rows(orders))


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
