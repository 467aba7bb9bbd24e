"""Orders as CSV, for a warehouse: one row per line of an order.

The rows are read in pages, so that an export of any length needs little memory and keeps no
transaction open. Columns have the same names in all languages, for programs. A cell that a
spreadsheet would take for a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.utils.timezone import localtime

from shop.money import to_major
from shop.orders.models import Order, OrderLine

AT_ONCE = 500
"""Rows of a page."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a formula may begin with; in Chinese and Japanese editions also in full width."""

COLUMNS = (
    "order",
    "created",
    "status",
    "buyer",
    "email",
    "sale",
    "slug",
    "product",
    "ordered",
    "units",
    "price",
    "tax_rate",
    "tax",
    "currency",
)
"""The columns before the order's details. `units` are those of `ordered` that did not come back,
`price` is that of one unit, and `tax` what the price of all that were ordered includes."""

BOM = "\ufeff"
"""At the beginning, so that spreadsheets read the text as UTF-8."""


class _Echo:
    """A file whose `write` returns the text, so that each row can be sent at once."""

    def write(self, text: str) -> str:
        return text


def rows(orders: QuerySet[Order]) -> Iterator[str]:
    """Write orders as CSV, in ascending order of their lines.

    Args:
        orders: which ones.
    """
    writer: Any = csv.writer(_Echo())
    yield BOM + writer.writerow([*COLUMNS, *Order.DETAILS])
    wanted = OrderLine.objects.filter(order__in=orders.order_by().values("pk"))
    wanted = wanted.select_related("order__buyer", "sale__product", "reservation")
    last = 0
    while page := list(wanted.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        yield "".join(writer.writerow([safe(cell) for cell in cells(line)]) for line in page)
        last = page[-1].pk


def cells(line: OrderLine) -> list[Any]:
    """Return a line's cells."""
    order, product = line.order, line.sale.product
    return [
        order.pk,
        localtime(order.created).isoformat(timespec="seconds"),
        order.status,
        order.buyer.get_username(),
        order.buyer.email,
        line.sale_id,
        product.slug,
        line.sale.name,
        line.quantity,
        line.live,
        to_major(line.price, order.currency),
        line.tax_rate,
        to_major(line.tax, order.currency),
        order.currency,
        *order.details.values(),
    ]


def safe(cell: Any) -> str:
    """Return a cell as text that no spreadsheet takes for a formula."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith(FORMULA) else text
