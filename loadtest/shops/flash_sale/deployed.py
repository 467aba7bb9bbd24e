"""Our shop as it is deployed: `loadtest.shops.flash_sale.deployed:Adapter`.

Such a shop has no calls for load tests. Its sales are made and changed by its operators, its buyers
are real accounts, and its books are read in its database, by a read-only account that
`SHOP_DATABASE_URL` names. Without that, only what buyers are answered is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from psycopg import Connection, IsolationLevel

from loadtest.checker import snapshot
from loadtest.checker.snapshot import Terms
from loadtest.full_shop import ShopRefused
from loadtest.sale_roles import SaleTerms
from loadtest.shops.api import DATABASE
from loadtest.shops.flash_sale import adapter, books

_TIMEOUT = 10
"""Seconds to reach the database."""

_NOT_PEOPLE = tuple(table for table in books.TABLES if table[0] is not snapshot.Buyer)
"""What is read: nobody's address, which only the mails are compared with."""

_STRATEGY = {"name": "combining", "fenced": True}

_PURCHASES = "SELECT count(*) FROM inventory_reservation WHERE scope = %(sale)s"

_TERMS = """
SELECT price, (extract(epoch FROM starts_at) * 1000000)::bigint,
       (extract(epoch FROM ends_at) * 1000000)::bigint, paused
FROM shop_sale WHERE id = %(sale)s
"""


class Adapter(adapter.Adapter):
    """A shop in production."""

    operates = False
    makes_buyers = "name a file with the tokens of its accounts (--tokens)"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._database = os.environ.get(DATABASE, "")
        self.has_books = bool(self._database)

    def strategies(self) -> list[dict[str, Any]]:
        """Return its only way of selling."""
        return [_STRATEGY]

    def open_sale(self, terms: SaleTerms, starts_in: float) -> str:
        """Refuse."""
        _refuse("opens no sale for a load test: make one with `manage.py create_sale`")

    def restock(self, sale: str, units: int) -> None:
        """Refuse."""
        _refuse("is not restocked by a load test")

    def change(self, sale: str, **changes: Any) -> Terms:
        """Read the terms of a sale. Raises `ShopRefused`, also for any change."""
        if changes:
            _refuse("has its sales changed by its operators only")
        with self._reading() as database:
            asked = books.clock(database)
            found = database.execute(_TERMS, {"sale": int(sale)}).fetchone()
            if found is None:
                raise ShopRefused(f"its database has no sale {sale}")
            price, starts_at, ends_at, paused = found
            done = books.clock(database)
        return Terms(sale, asked, done, price, starts_at, ends_at, paused)

    def figures(self, sale: str) -> dict[str, Any]:
        """Read what the sale has come to. Raises `ShopRefused`."""
        with self._reading() as database:
            found = books.items(database, [int(sale)])
            if not found:
                raise ShopRefused(f"its database has no sale {sale}")
            [item] = found
            [purchases] = database.execute(_PURCHASES, {"sale": int(sale)}).fetchone() or [0]
            pending = books.pending(database, self._sales(sale))
        return {
            "sale": int(sale),
            "item": item.id,
            "strategy": _STRATEGY["name"],
            "total": item.total,
            "available": item.available,
            "held": item.held,
            "confirmed": item.confirmed,
            "ledger_sum": item.ledger_sum,
            "fence": item.fence,
            "oversold": max(0, item.held + item.confirmed - item.total),
            "purchases": purchases,
            "pending": pending,
        }

    def snapshot(self, sale: str, path: Path) -> None:
        """Write the tables of the sale, but for the buyers' addresses. Raises `ShopRefused`."""
        unfinished = path.with_suffix(".part")
        with self._reading() as database, unfinished.open("w") as file:
            file.writelines(books.lines(database, self._sales(sale), _NOT_PEOPLE))
        unfinished.rename(path)

    def ledger(self, sale: str, path: Path) -> None:
        """Refuse: the payment provider is another company's."""
        raise ShopRefused("the payment provider's ledger is not read here", 404)

    def deliveries(self, sale: str, path: Path) -> None:
        """Refuse: the mails go to the buyers."""
        raise ShopRefused("the mails go to another server", 404)

    def _sales(self, sale: str) -> list[int]:
        return [int(number) for number in (sale, *self.further_sales)]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Read the database at one moment."""
        if not self.has_books:
            raise ShopRefused(f"{DATABASE} names no database")
        try:
            with psycopg.connect(self._database, connect_timeout=_TIMEOUT) as database:
                database.isolation_level = IsolationLevel.REPEATABLE_READ
                database.read_only = True
                yield database
        except psycopg.Error as error:
            raise ShopRefused(f"its database: {error}") from error


def _refuse(what: str) -> NoReturn:
    raise ShopRefused(f"a deployed shop {what}")
