"""The payment provider's own ledger, as a file that the checker judges (P11)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path

from loadtest.checker import snapshot
from shop.orders.models import Order
from shop.payments.http_provider import LedgerLine, ledger_lines


def write(path: Path, orders: Collection[int]) -> None:
    """Write what the provider moved for orders to a file; see ``lines``."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines(orders))


def lines(orders: Collection[int]) -> Iterator[str]:
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
