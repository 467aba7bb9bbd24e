"""The guard: the only place that changes ``Item.available``.

Each function is one statement that changes the row and writes the ledger together, so neither
can be forgotten. All of them must run inside the caller's transaction, whose row lock then
keeps every other writer of the item waiting until the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from django.db import connection, transaction

from inventory import sql
from inventory.models import StockMovement
from inventory.outcomes import Level, StaleToken

Reason = StockMovement.Reason


class OutOfStock(Exception):
    """Fewer units are available than were to be taken."""

    def __init__(self, available: int) -> None:
        super().__init__(f"only {available} available")
        self.available = available


class NoSuchItem(LookupError):
    """There is no item of that id."""


# The condition in WHERE is what decides, in the database and at the moment of the write. The
# token: a writer that was overtaken by a newer holder of the lock changes nothing; a writer
# without a lock has no token and is not compared.
TAKE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET available = available - %(units)s::bigint,
        version = version + 1,
        fence = GREATEST(fence, COALESCE(%(token)s::bigint, fence))
    WHERE id = %(item)s
      AND available >= %(units)s::bigint
      AND fence <= COALESCE(%(token)s::bigint, fence)
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason, token)
    SELECT id, -%(units)s::bigint, %(reason)s, %(token)s::bigint FROM changed
)
SELECT available, version FROM changed
"""

TAKE_OR_FAIL: LiteralString = TAKE.replace(
    "SELECT available, version FROM changed", "SELECT 1 / count(*) FROM changed"
)
"""The same, with a division by zero where it takes nothing."""

# Up to the total: of an item that was oversold, which only a demonstration can do, what was never
# there does not come back. Units that are returned twice are refused at the commit all the same,
# for the ledger has both movements.
PUT_BACK: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET available = LEAST(available + %(units)s::bigint, total), version = version + 1
    WHERE id = %(item)s
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, %(units)s::bigint, 'release' FROM changed
)
SELECT available, version FROM changed
"""

# Returned units that nobody may have again leave the total. The ledger says both: they came back,
# and they went. What is available has not moved, and neither has its version.
WRITE_OFF: LiteralString = """
WITH changed AS (
    UPDATE inventory_item SET total = total - %(units)s::bigint
    WHERE id = %(item)s
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, delta, reason
    FROM changed, (VALUES (%(units)s::bigint, 'release'), (-%(units)s::bigint, 'write_off'))
        AS movement (delta, reason)
)
SELECT available, version FROM changed
"""

RESTOCK: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET total = total + %(units)s::bigint,
        available = available + %(units)s::bigint,
        version = version + 1
    WHERE id = %(item)s
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, %(units)s::bigint, 'restock' FROM changed
)
SELECT available, version FROM changed
"""


def take(item: int, units: int, *, token: int | None = None, reason: Reason = Reason.SALE) -> Level:
    """Take units, if that many are there.

    Args:
        item: id of the item.
        units: how many, at least 1.
        token: fencing token of the item's lock; None when selling without the lock.
        reason: what the ledger says.

    Raises:
        OutOfStock: fewer are available.
        StaleToken: a newer holder of the lock has written.
        NoSuchItem: no such item.
    """
    parameters = to_take(item, units, token, reason)
    with connection.wrap_database_errors, sql.cursor() as cursor:
        return taken(cursor.execute(TAKE, parameters), parameters)


def to_take(
    item: int, units: int, token: int | None, reason: Reason = Reason.SALE
) -> dict[str, Any]:
    """Parameters of :data:`TAKE`, for who sends it together with other statements.

    Whoever does must then ask :func:`taken`; only what that returns was taken.
    """
    _require(units)
    return {"item": item, "units": units, "token": token, "reason": reason}


def taken(cursor: psycopg.Cursor[Any], parameters: Mapping[str, Any]) -> Level:
    """The item's level after :data:`TAKE`, from the cursor that stands at its result.

    Raises:
        OutOfStock: fewer are available.
        StaleToken: a newer holder of the lock has written.
        NoSuchItem: no such item.
    """
    row = cursor.fetchone()
    if row is None:
        raise _why_refused(parameters["item"], parameters["token"])
    return Level(*row)


def put_back(item: int, units: int) -> Level:
    """Return released units. The caller has moved their reservations in this transaction.

    Raises:
        NoSuchItem: no such item.
    """
    return _change(PUT_BACK, item, units)


def write_off(item: int, units: int) -> Level:
    """Drop returned units from the total. The caller has moved their reservations as well.

    Raises:
        NoSuchItem: no such item.
    """
    return _change(WRITE_OFF, item, units)


def restock(item: int, units: int) -> Level:
    """Add new units, which also raises the total.

    Raises:
        NoSuchItem: no such item.
    """
    return _change(RESTOCK, item, units)


def _require(units: int) -> None:
    if units < 1:
        raise ValueError(f"stock moves by at least one unit, not {units}")
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("the guard runs in its caller's transaction")


def _change(statement: LiteralString, item: int, units: int) -> Level:
    _require(units)
    with connection.wrap_database_errors, sql.cursor() as cursor:
        row = cursor.execute(statement, {"item": item, "units": units}).fetchone()
    if row is None:
        raise NoSuchItem(item)
    return Level(*row)


def _why_refused(item: int, token: int | None) -> Exception:
    """The guard changed nothing: tell the caller which condition failed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT available, fence FROM inventory_item WHERE id = %s", [item])
        row = cursor.fetchone()
    if row is None:
        return NoSuchItem(item)
    available, fence = row
    if token is not None and fence > token:
        return StaleToken(f"token {token} is older than {fence}")
    return OutOfStock(available)
