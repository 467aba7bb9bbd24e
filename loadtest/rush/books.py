"""The shop's own books as the final snapshot that the checker reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.checker import snapshot
from loadtest.shop import Bill, Books


@dataclass(slots=True)
class Asked:
    """Who asked for an order: the key of the purchase and the buyer."""

    key: str
    buyer: str


@dataclass(slots=True)
class Told:
    """What buyers were told: `orders` by the ids in the answers, `open` the unknown purchases."""

    orders: dict[str, Asked] = field(default_factory=dict)
    open: list[Asked] = field(default_factory=list)


@dataclass(slots=True)
class Extra:
    """What the books say of vouchers (id, limit, uses) and of the orders' bills."""

    vouchers: Sequence[tuple[str, int, int]] = ()
    bills: Mapping[str, Bill] = field(default_factory=dict)


def write(path: Path, sale: str, books: Books, told: Told, extra: Extra) -> None:
    """Write the books of a sale."""
    rows = [*_rows(sale, books, told), *_extra(extra)]
    snapshot.write(path, snapshot.Header(time.monotonic_ns()), rows)


def _rows(sale: str, books: Books, told: Told) -> Iterator[snapshot.Row]:
    sold = sum(books.orders.values())
    # Without a figure of its own for what is left, the shop says nothing that could disagree.
    available = books.total - sold if books.available is None else books.available
    yield snapshot.Sale(sale, sale, 0)
    yield snapshot.Item(sale, books.total, available, 0, sold, available)
    unanswered = iter(told.open)
    for number, (order, units) in enumerate(books.orders.items()):
        # An order that no answer names may be that of any purchase without an answer.
        asked = told.orders.get(order) or next(unanswered, None)
        asked = asked or Asked(f"not asked for {number}", "nobody")
        held = f"{number}"
        yield snapshot.Reservation(
            held, sale, asked.buyer, asked.key, units, state=snapshot.CONFIRMED
        )
        yield snapshot.Order(order, held, sale, sale, asked.buyer, asked.key, units)


def _extra(extra: Extra) -> Iterator[snapshot.Row]:
    for voucher, limit, uses in extra.vouchers:
        yield snapshot.Voucher(voucher, limit, uses)
    for order, bill in extra.bills.items():
        yield snapshot.Bill(order, bill.paid, bill.worth)
