"""A database with millions of old reservations, to measure what they cost a new purchase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import sql

NAME = "bench_filled"

SALE = 10_000
"""Purchases per sale."""

BATCH = 50
"""Purchases per transaction, as measured with 128 connections."""

PURCHASES_PER_BUYER = 10

FIRST_ITEM = 1_000_001
"""Other ids than the empty database's: both shops use the same Redis, whose keys contain them."""

FILL = Path(__file__).with_name("fill.sql").read_bytes()

BUYERS = """
WITH buyer AS (
    INSERT INTO accounts_user (username, password, email, first_name, last_name, is_superuser,
                               is_staff, is_active, date_joined)
    SELECT 'old-buyer-' || number, '!', 'old-buyer-' || number || '@example.com', '', '',
           false, false, true, now() FROM generate_series(1, %s) AS number
    RETURNING id
) SELECT min(id) FROM buyer
"""

PRODUCT = """
INSERT INTO shop_product (name, slug, description, list_price, currency)
VALUES ('Sold earlier', 'sold-earlier', '', 0, 'CNY') RETURNING id
"""

# Checked afterwards, all at once: row by row, they take two thirds of the time.
FOREIGN_KEYS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype = 'f' AND conrelid = ANY(
    ARRAY['inventory_reservation', 'shop_order', 'shop_orderline']::regclass[])
"""

# Ids are given, because a reservation, its order and its line refer to each other. The next ids are
# larger than any that was used: caches know things by their ids.
AFTER = "; ".join(
    f"SELECT setval(sequence, greatest(max(id), nextval(sequence))) FROM {table}, "
    f"pg_get_serial_sequence('{table}', 'id') AS sequence GROUP BY sequence"
    for table in ("inventory_item", "shop_sale", "inventory_reservation", "shop_order")
).encode()


def filled(url: str, reservations: int, tell: Callable[[str], None]) -> str:
    """Return the URL of a database with so many reservations; make it unless it is there.

    Args:
        url: of a database on the same server.
        reservations: in finished sales; their books balance.
        tell: called with progress messages.
    """
    address = urlsplit(url)
    ours = address._replace(path=f"/{NAME}").geturl()
    with psycopg.connect(url, autocommit=True) as connection:
        if _size(connection) == reservations:
            return ours
        name = sql.Identifier(NAME)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    with using(NAME):
        call_command("migrate", verbosity=0)
    fill(ours, reservations, tell)
    with psycopg.connect(url, autocommit=True) as connection:
        comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
        connection.execute(comment.format(name, sql.Literal(str(reservations))))
    return ours


def fill(url: str, reservations: int, tell: Callable[[str], None]) -> None:
    """Add finished sales to an empty database, on two connections.

    Afterwards all indexes and constraints are in force. Arguments as for :func:`filled`.
    """
    buyers = max(reservations // PURCHASES_PER_BUYER, min(reservations, SALE))
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        product = connection.execute(PRODUCT).fetchone()
        first_buyer = connection.execute(BUYERS, [buyers]).fetchone()
        assert product is not None
        assert first_buyer is not None
    parameters = {
        "item": FIRST_ITEM,
        "sale": 1,
        "first": 1,
        "buyer": first_buyer[0],
        "buyers": buyers,
        "batch": BATCH,
        "size": SALE,
        "product": product[0],
    }
    sales = ceil(reservations / SALE)

    def sell(numbers: range) -> None:
        with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
            for number in numbers:
                units = min(SALE, reservations - number * SALE)
                _sell(connection, {**parameters, "number": number, "units": units})
                tell(f"{number * SALE:,} of {reservations:,} reservations …")

    with _checked_at_the_end(url, tell), ThreadPoolExecutor(2) as pool:
        list(pool.map(sell, [range(start, sales, 2) for start in range(2)]))
    tell("VACUUM …")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(AFTER)
        # What autovacuum would have done by the next sale.
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _sell(connection: psycopg.Connection[Any], parameters: dict[str, int]) -> None:
    connection.execute(FILL, parameters)
    connection.commit()


@contextmanager
def _checked_at_the_end(url: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Drop the foreign keys of the large tables, and add them again, which checks all rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        keys = connection.execute(FOREIGN_KEYS).fetchall()
        for table, name, _ in keys:
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}".encode())
        yield
        for table, name, definition in keys:
            tell(f"Checking {name} …")
            connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}".encode())


def _size(connection: psycopg.Connection[Any]) -> int:
    """Return the reservations that the database was filled with; 0 if it was not, or not wholly."""
    row = connection.execute(
        "SELECT coalesce(shobj_description(oid, 'pg_database'), '0')::bigint "
        "FROM pg_database WHERE datname = %s",
        [NAME],
    ).fetchone()
    return row[0] if row else 0


@contextmanager
def using(name: str) -> Iterator[None]:
    """Let Django's queries of this thread go to the database of this name."""
    usual = connections[DEFAULT_DB_ALIAS]
    other = usual.copy()
    # Without the pool, which is one per alias and so connected to the usual database.
    options = {**other.settings_dict["OPTIONS"], "pool": False}
    other.settings_dict = {**other.settings_dict, "NAME": name, "OPTIONS": options}
    connections[DEFAULT_DB_ALIAS] = other
    try:
        yield
    finally:
        other.close()
        connections[DEFAULT_DB_ALIAS] = usual
