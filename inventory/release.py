"""Release reservations: the shop's rows first, the hot rows last.

Buyers who cancel and batches that sell need the same row. So everything that concerns only this
reservation is written first. The last message locks the items, releases the reservations, puts the
units back and commits: the items' rows are locked for no round trip.

Only the row of a sold-out item is locked for longer: until no process refuses purchases any more
because it has seen the item sold out (`inventory.selling.hint`). No batch sells it meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from inventory.models import Reservation
from inventory.outcomes import Level
from inventory.selling import guard
from inventory.selling.commit import ConditionFailed, execute_and_commit, execute_together
from inventory.selling.hint import end_hints

State = Reservation.State


@dataclass(frozen=True, slots=True)
class Released:
    """A reservation that is being fully or partly released.

    Attributes:
        quantity: units that are released.
        kept: units that stay reserved.
    """

    reservation: int
    item: int
    buyer: int
    quantity: int
    scope: int = field(default=0, compare=False, repr=False)
    kept: int = field(default=0, compare=False)


# Ends the message before its COMMIT if an item is sold out.
LOCK_ITEMS_ON_SALE: LiteralString = (
    "SAVEPOINT release;"
    f"WITH item AS ({guard.LOCK_ITEMS}) SELECT inventory_require(min(available) > 0) FROM item"
)

# The quotas follow the items, and are locked in the same order, as in a batch that sells.
RELEASE: LiteralString = """
UPDATE inventory_reservation SET state = 'released' WHERE id = ANY(%(whole)s::bigint[]);
UPDATE inventory_reservation SET returned = returned + part.units
FROM unnest(%(parts)s::bigint[], %(part_units)s::bigint[]) AS part (id, units)
WHERE inventory_reservation.id = part.id;
WITH released AS (
    SELECT * FROM unnest(%(reservations)s::bigint[], %(scopes)s::bigint[], %(buyers)s::bigint[],
                         %(units)s::int[]) AS released (reservation, scope, subject, units)
), counted AS (
    SELECT scope, subject, units FROM released
    UNION ALL SELECT further.scope, further.subject, released.units
    FROM released JOIN inventory_reservationquota AS further
      ON further.reservation_id = released.reservation
), given AS (
    SELECT scope, subject, sum(units) AS units FROM counted GROUP BY scope, subject
), locked AS (
    SELECT quota.scope, quota.buyer, given.units FROM inventory_buyerquota AS quota
    JOIN given ON given.scope = quota.scope AND given.subject = quota.buyer
    ORDER BY quota.scope, quota.buyer FOR NO KEY UPDATE OF quota
)
UPDATE inventory_buyerquota AS quota SET used = quota.used - locked.units
FROM locked WHERE quota.scope = locked.scope AND quota.buyer = locked.buyer
"""


@contextmanager
def releasing(
    reservations: Iterable[int],
    *,
    was: State = State.HELD,
    only_due: bool = False,
    units: int | None = None,
    written_off: Collection[int] = (),
) -> Iterator[list[Released]]:
    """Release reservations and return their units, each exactly once however often this is called.

    The block runs in the same transaction and updates the shop's rows. An exception in it rolls
    the release back, and a reservation that the block removes from the list is not released. The
    reservations are locked in order of id before the block, and the items after it.

    Args:
        reservations: ids.
        was: the required state; others are left alone.
        only_due: skip reservations whose deadline has not passed, by the database's clock.
        units: release only this many of each; reservations with fewer are left alone. A
            repeated call releases again, which the block must prevent.
        written_off: ids of those whose units leave the total instead of being sold again.

    Yields:
        The reservations that are released.
    """
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        released = _lock(list(reservations), was, only_due, units)
        yield released
        if released:
            _write(released, frozenset(written_off), commit=outermost)


def _lock(
    reservations: Sequence[int], was: State, only_due: bool, units: int | None
) -> list[Released]:
    rows = Reservation.objects.filter(pk__in=reservations, state=was)
    if only_due:
        rows = rows.filter(deadline__lte=Now())
    fields = ("pk", "item", "buyer", "scope", F("quantity") - F("returned"))
    return [
        Released(pk, item, buyer, units or live, scope, live - (units or live))
        for pk, item, buyer, scope, live in rows.select_for_update(no_key=True)
        .order_by("pk")
        .values_list(*fields)
        if units is None or live >= units
    ]


def _write(released: Sequence[Released], written_off: Container[int], *, commit: bool) -> None:
    """Release the locked reservations; commit in the same message where that is possible."""
    back: Counter[int] = Counter()
    gone: Counter[int] = Counter()
    for release in released:
        units = gone if release.reservation in written_off else back
        units[release.item] += release.quantity
    parameters = {"items": [*(back | gone)], **_parameters(released)}
    changes: list[tuple[LiteralString, dict[str, Any]]] = [(RELEASE, parameters)]
    for statement, moved in ((guard.WRITE_OFF, gone), (guard.PUT_BACK, back)):
        changes += [(statement, {"item": item, "units": moved[item]}) for item in sorted(moved)]
    if commit:
        try:
            execute_and_commit([(LOCK_ITEMS_ON_SALE, parameters), *changes]).close()
            return
        except ConditionFailed:
            with connection.cursor() as again:
                again.execute("ROLLBACK TO SAVEPOINT release")
    with execute_together([(guard.LOCK_ITEMS, parameters), *changes]) as cursor:
        levels = _levels(cursor, back)
    end_hints([item for item, level in levels.items() if level.available <= back[item]])


def _parameters(released: Sequence[Released]) -> dict[str, list[int]]:
    whole: list[int] = []
    parts: dict[int, int] = {}
    for release in released:
        if release.kept:
            parts[release.reservation] = release.quantity
        else:
            whole.append(release.reservation)
    return {
        "whole": whole,
        "parts": [*parts],
        "part_units": [*parts.values()],
        "reservations": [release.reservation for release in released],
        "scopes": [release.scope for release in released],
        "buyers": [release.buyer for release in released],
        "units": [release.quantity for release in released],
    }


def _levels(cursor: psycopg.ClientCursor, items: Collection[int]) -> dict[int, Level]:
    """Return the levels of items from the last rows of a message."""
    rows = [row for result in cursor.results() if result.description for row in result]
    last = rows[len(rows) - len(items) :]
    return {item: Level(*row) for item, row in zip(sorted(items), last, strict=True)}
