"""``combining`` without its guard, for the negative control that turns it off.

It reads the item without locking its row and writes back that number minus the units sold, as in a
shop that combines purchases and trusts its lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from django.db import connection

from inventory.outcomes import Granted, Level, PurchaseTicket
from inventory.selling import batch, guard
from inventory.selling.batch import Written
from lab.models import UnenforcedItem
from lab.strategies.combining import Combining

READ_ITEM: LiteralString = (
    "SELECT available, version, fence FROM inventory_item WHERE id = %(item)s"
)

TAKE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item
    SET available = %(read)s - %(units)s::bigint, version = version + 1
    WHERE id = %(item)s
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, -%(units)s::bigint, 'sale' FROM changed
)
SELECT available, version FROM changed
"""


def write(tickets: Sequence[PurchaseTicket], token: int | None) -> Written:
    """Decide on data read without a lock, and overwrite the current value."""
    decision, level = batch.read_and_decide(tickets, token, READ_ITEM + ";" + batch.READ_BATCH)
    granted: list[Granted] = []
    if decision.granted:
        item = tickets[0].request.item
        take_parameters = guard.to_take(item, decision.units, token)
        with connection.wrap_database_errors:
            granted, _ = batch.insert(batch.WRITE, decision, take_parameters)
        level = take(item, decision.units, level.available)
    return Written(decision, granted, level)


def take(item: int, units: int, read: int) -> Level:
    """Write ``read - units`` over the current value, which loses concurrent updates."""
    with connection.cursor() as cursor:
        cursor.execute(TAKE, {"item": item, "units": units, "read": read})
        level = Level(*cursor.fetchone())
    UnenforcedItem.add(item)
    return level


class UnguardedCombining(Combining):
    """Replaces ``combining`` where the lab's environment turns the guard off."""

    summary = "requests combined per process, without the guard: oversells without the lock"

    def __init__(self) -> None:
        super().__init__()
        self.write = write
