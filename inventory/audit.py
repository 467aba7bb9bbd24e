"""Audit the books: compare every counter with the rows that it sums up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

# One statement and so one snapshot: nothing can change between two sums. The items are asked for in
# each part, so that the audit of one does not read the reservations of all.
BOOKS = """
SELECT item.id, item.total, item.available, item.reserved, item.ledger,
       COALESCE(units.held, 0), COALESCE(units.confirmed, 0), COALESCE(moved.sum, 0)
FROM inventory_item AS item
LEFT JOIN (
    SELECT item_id,
           sum(quantity - returned) FILTER (WHERE state = 'held') AS held,
           sum(quantity - returned) FILTER (WHERE state = 'confirmed') AS confirmed
    FROM inventory_reservation
    WHERE %(items)s::bigint[] IS NULL OR item_id = ANY(%(items)s) GROUP BY item_id
) AS units ON units.item_id = item.id
LEFT JOIN (
    SELECT item_id, sum(delta) AS sum FROM inventory_stockmovement
    WHERE %(items)s::bigint[] IS NULL OR item_id = ANY(%(items)s) GROUP BY item_id
) AS moved ON moved.item_id = item.id
WHERE %(items)s::bigint[] IS NULL OR item.id = ANY(%(items)s)
ORDER BY item.id
"""

# A limit may span several items, so the audit of one item counts all reservations of its scopes. A
# buyer without a quota row has used nothing of the limit. A reservation counts against its buyer's
# limit and against its further quotas.
QUOTAS = """
WITH holder AS (
    SELECT scope, buyer AS subject FROM inventory_buyerquota
    WHERE %(items)s::bigint[] IS NULL OR scope = ANY(ARRAY(
        SELECT scope FROM inventory_reservation WHERE item_id = ANY(%(items)s)
        UNION
        SELECT further.scope FROM inventory_reservation AS reservation
        JOIN inventory_reservationquota AS further ON further.reservation_id = reservation.id
        WHERE item_id = ANY(%(items)s)))
    UNION
    SELECT scope, buyer FROM inventory_reservation
    WHERE state <> 'released' AND (%(items)s::bigint[] IS NULL OR item_id = ANY(%(items)s))
    UNION
    SELECT further.scope, further.subject FROM inventory_reservation AS reservation
    JOIN inventory_reservationquota AS further ON further.reservation_id = reservation.id
    WHERE state <> 'released' AND (%(items)s::bigint[] IS NULL OR item_id = ANY(%(items)s))
), of_buyers AS (
    SELECT holder.scope, holder.subject, sum(quantity - returned) AS units
    FROM holder JOIN inventory_reservation AS reservation
      ON reservation.scope = holder.scope AND reservation.buyer = holder.subject
    WHERE state <> 'released' GROUP BY holder.scope, holder.subject
), of_further AS (
    SELECT holder.scope, holder.subject, sum(quantity - returned) AS units
    FROM holder JOIN inventory_reservationquota AS further
      ON further.scope = holder.scope AND further.subject = holder.subject
    JOIN inventory_reservation AS reservation ON reservation.id = further.reservation_id
    WHERE state <> 'released' GROUP BY holder.scope, holder.subject
)
SELECT holder.scope, holder.subject, quota.used,
       COALESCE(of_buyers.units, 0) + COALESCE(of_further.units, 0) AS held
FROM holder
LEFT JOIN inventory_buyerquota AS quota
       ON quota.scope = holder.scope AND quota.buyer = holder.subject
LEFT JOIN of_buyers
       ON of_buyers.scope = holder.scope AND of_buyers.subject = holder.subject
LEFT JOIN of_further
       ON of_further.scope = holder.scope AND of_further.subject = holder.subject
WHERE COALESCE(quota.used, 0) <> COALESCE(of_buyers.units, 0) + COALESCE(of_further.units, 0)
ORDER BY holder.scope, holder.subject
"""


@dataclass(slots=True)
class Book:
    """One item's figures, in units."""

    item: int
    total: int
    available: int
    held: int
    confirmed: int
    ledger: int
    oversold: int


@dataclass(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        items: one book per item.
        problems: one sentence per discrepancy.
    """

    items: list[Book] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Whether there are no discrepancies."""
        return not self.problems


def audit(items: list[int] | None = None) -> Audit:
    """Compare the counters of items with their reservations, movements and quotas.

    Args:
        items: ids; None for all.
    """
    result = Audit()
    parameters: dict[str, Any] = {"items": items}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(BOOKS, parameters)
        for item, total, available, reserved, counter, held, confirmed, ledger in cursor.fetchall():
            oversold = max(held + confirmed - total, 0)
            book = Book(item, total, available, held, confirmed, int(ledger), oversold)
            result.items.append(book)
            result.problems += [f"item {item}: {text}" for text in _wrong(book, reserved, counter)]
        cursor.execute(QUOTAS, parameters)
        for scope, buyer, used, units in cursor.fetchall():
            counted = "no units (there is no row)" if used is None else f"{used} units"
            result.problems.append(
                f"scope {scope}: buyer {buyer} has used {counted} of the limit and holds {units}"
            )
    return result


def _wrong(book: Book, reserved: int, counter: int) -> list[str]:
    """Return a book's discrepancies.

    Args:
        book: figures that were summed up from the rows.
        reserved: the item's own counter of reserved units.
        counter: the item's own counter of the ledger.
    """
    live = book.held + book.confirmed
    checks = {
        f"oversold by {book.oversold}: {live} of {book.total} units are held or confirmed": (
            book.oversold == 0
        ),
        f"available is negative: {book.available}": book.available >= 0,
        f"available {book.available} + held {book.held} + confirmed {book.confirmed} "
        f"is not total {book.total}": book.available + live == book.total,
        f"the ledger adds up to {book.ledger}, available is {book.available}": (
            book.ledger == book.available
        ),
        f"the counter of reserved units is {reserved}, the rows add up to {live}": reserved == live,
        f"the counter of the ledger is {counter}, the rows add up to {book.ledger}": (
            counter == book.ledger
        ),
    }
    return [text for text, holds in checks.items() if not holds]
