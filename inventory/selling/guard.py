"""The guard: the only place that changes `Item.available`.

Each function is one statement that changes the row and writes the ledger, so that neither can be
forgotten. It runs in the caller's transaction, whose row lock blocks all other writers of the item
until the commit. All raise `NoSuchItem` for an unknown id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString

from django.db import connection, transaction

from inventory.models import Item, StockMovement
from inventory.outcomes import Level, NoSuchItem
from inventory.postgresql.base import plain_cursor

Reason = StockMovement.Reason


class OutOfStock(Exception):
    """Fewer units are available than requested."""

    def __init__(self, available: int) -> None:
        super().__init__(f"only {available} available")
        self.available = available


LOCK_ITEMS: LiteralString = """
SELECT available FROM inventory_item WHERE id = ANY(%(items)s::bigint[]) ORDER BY id
FOR NO KEY UPDATE
"""
"""In order of id, as wherever several items are locked, or two transactions could wait for each
other."""

# The WHERE clause decides, in the database, at the moment of the write. The token: a writer that a
# newer lock holder has overtaken changes nothing; a writer without a lock has no token to compare.
TAKE_OR_FAIL: LiteralString = """
WITH wanted AS (
    SELECT * FROM unnest(%(items)s::bigint[], %(units)s::bigint[]) AS wanted (item, units)
), changed AS (
    UPDATE inventory_item
    SET available = available - units,
        version = version + 1,
        fence = GREATEST(fence, COALESCE(%(token)s::bigint, fence))
    FROM wanted
    WHERE id = item
      AND available >= units
      AND fence <= COALESCE(%(token)s::bigint, fence)
    RETURNING id, units, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason, token)
    SELECT id, -units, %(reason)s, %(token)s::bigint FROM changed
)
SELECT array_agg(id), array_agg(available), array_agg(version),
       inventory_require(count(*) = (SELECT count(*) FROM wanted))
FROM changed
"""
"""Ends the message where too few units of any item are left, or the token is stale."""

TAKE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET available = available - %(units)s::bigint, version = version + 1
    WHERE id = %(item)s AND available >= %(units)s::bigint
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, -%(units)s::bigint, %(reason)s FROM changed
)
SELECT available, version FROM changed
"""

PUT_BACK: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET available = available + %(units)s::bigint, version = version + 1
    WHERE id = %(item)s
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, %(units)s::bigint, 'release' FROM changed
)
SELECT available, version FROM changed
"""

# Units that are returned but not sold again leave the total. The ledger records both movements;
# available and its version do not change.
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
    INSERT INTO inventory_stockmovement (item_id, delta, reason, note)
    SELECT id, %(units)s::bigint, 'restock', %(note)s FROM changed
)
SELECT available, version FROM changed
"""

REMOVE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET total = total - %(units)s::bigint,
        available = available - %(units)s::bigint,
        version = version + 1
    WHERE id = %(item)s AND available >= %(units)s::bigint
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason, note)
    SELECT id, -%(units)s::bigint, 'write_off', %(note)s FROM changed
)
SELECT available, version FROM changed
"""


def to_take(units: Mapping[int, int], reason: Reason, token: int | None) -> dict[str, Any]:
    """Return the parameters of `TAKE_OR_FAIL` and `LOCK_ITEMS`, to send them with other statements.

    Args:
        units: how many, at least 1, by id of the item.
        reason: the ledger's reason.
        token: fencing token of the item's lock; None without the lock.
    """
    if min(units.values()) < 1:
        raise ValueError(f"stock moves by at least one unit, not {min(units.values())}")
    return {"items": [*units], "units": [*units.values()], "reason": reason, "token": token}


def take(item: int, units: int, reason: Reason = Reason.SALE) -> Level:
    """Take units if that many are available, without the item's lock.

    Raises:
        OutOfStock: fewer are available.
    """
    return _change(TAKE, item, units, reason=reason)


def restock(item: int, units: int, note: str = "") -> Level:
    """Add new units, which raises the total too; the ledger keeps the note."""
    return _change(RESTOCK, item, units, note=note)


def remove(item: int, units: int, note: str = "") -> Level:
    """Remove unsold units, which lowers the total too; the ledger keeps the note.

    Raises:
        OutOfStock: fewer are available.
    """
    return _change(REMOVE, item, units, note=note)


def _require(units: int) -> None:
    if units < 1:
        raise ValueError(f"stock moves by at least one unit, not {units}")
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("the guard runs in its caller's transaction")


def _change(statement: LiteralString, item: int, units: int, **more: object) -> Level:
    _require(units)
    with connection.wrap_database_errors, plain_cursor() as cursor:
        row = cursor.execute(statement, {"item": item, "units": units, **more}).fetchone()
    if row is None:
        available = Item.objects.filter(pk=item).values_list("available", flat=True).first()
        raise NoSuchItem(item) if available is None else OutOfStock(available)
    return Level(*row)
