"""Sell purchases of any items without their locks: take the units in the message that commits them.

The data for the decision are read without locks. Everything that conflicts with no other purchase
is written next, as if the units were taken. The last message takes them, counts them against the
limits, inserts the reservations and commits, so the items' rows are locked for as long as the
server needs for that, and for no round trip.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString

from django.db import connection

from inventory import sql
from inventory.models import Reservation
from inventory.outcomes import Granted, Level, LimitReached, PurchaseTicket, SoldOut
from inventory.selling import batch, guard
from inventory.selling.commit import execute_and_commit
from inventory.selling.guard import Reason
from inventory.selling.rules import Decision, decide
from inventory.sql import Insert, Statement

# Ids are drawn before the insert, because what the shop writes first refers to the reservations. It
# may: Django's foreign keys are checked at the commit.
READ: LiteralString = f"""
SELECT id, available FROM inventory_item WHERE id = ANY(%(items)s::bigint[]);
{batch.READ_BATCH};
SELECT nextval(pg_get_serial_sequence('inventory_reservation', 'id'))
FROM generate_series(1, %(number)s)
"""

RESERVATION = {
    "id": "id",
    **{name: name for name in ("item", "scope", "buyer", "key", "quantity")},
    "deadline": "now() + make_interval(secs => hold)",
}

REQUEST = """
WITH request AS (
    SELECT *, ordinality AS position FROM ROWS FROM (json_to_recordset(%(rows)s) AS (
        id bigint, item bigint, scope bigint, buyer bigint, key uuid, quantity int, allowed int,
        hold float8
    )) WITH ORDINALITY
)"""

# Like the guard, the limit ends the message before its COMMIT. The items come first and the quotas
# second, as wherever both are locked, or two transactions could wait for each other.
COUNT_AND_RESERVE = Statement(
    REQUEST
    + """, counted AS (
    INSERT INTO inventory_buyerquota AS quota (scope, buyer, used, allowed)
    SELECT scope, buyer, sum(quantity), max(allowed) FROM request GROUP BY scope, buyer
    HAVING sum(quantity) <= max(allowed)
    ORDER BY scope, buyer
    ON CONFLICT (scope, buyer) DO UPDATE
        SET used = quota.used + excluded.used, allowed = excluded.allowed
        WHERE quota.used + excluded.used <= excluded.allowed
    RETURNING used
)
SELECT inventory_require(count(*) = (SELECT count(DISTINCT (scope, buyer)) FROM request))
FROM counted;
"""
    + REQUEST
    + """
{reservation}""",
    reservation=Insert(Reservation, RESERVATION, source="request"),
)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What can be seen of an item's purchases without locks.

    Attributes:
        lines: the purchases' tickets.
        decision: its grants have their answers, too; None if there is no such item.
    """

    lines: Sequence[PurchaseTicket]
    decision: Decision | None

    @property
    def nobody_refused(self) -> bool:
        """Whether all are granted or repeat a key. Only a locked row can justify a refusal."""
        return self.decision is not None and not any(
            isinstance(ticket.answer, (SoldOut, LimitReached)) for ticket in self.lines
        )

    @property
    def granted(self) -> list[Granted]:
        """The grants that are to be written, in order of arrival."""
        tickets = self.decision.granted if self.decision else ()
        return [each for ticket in tickets if isinstance(each := ticket.answer, Granted)]


def foresee(tickets: Sequence[PurchaseTicket]) -> list[Foreseen]:
    """Decide purchases as far as can be seen without locks, in one message.

    Args:
        tickets: purchases of any items, in order of arrival; their answers are filled in.

    Returns:
        What was seen per item.
    """
    by_item = of_items(tickets)
    with connection.wrap_database_errors:
        cursor = sql.send(READ, batch.asked(tickets), {"items": [*by_item], "number": len(tickets)})
        available: dict[int, int] = dict(cursor.fetchall())
        cursor.nextset()
        known, used = batch.known_and_used(cursor)
        cursor.nextset()
        ids = iter(cursor.fetchall())
    seen = []
    for item, lines in by_item.items():
        decision = decide(lines, available[item], known, used) if item in available else None
        for ticket in decision.granted if decision else ():
            ticket.answer = Granted(ticket.request, *next(ids))
        seen.append(Foreseen(lines, decision))
    return seen


def of_items(tickets: Iterable[PurchaseTicket]) -> dict[int, list[PurchaseTicket]]:
    """Return tickets by item, in order of id."""
    lines: dict[int, list[PurchaseTicket]] = defaultdict(list)
    for ticket in tickets:
        lines[ticket.request.item].append(ticket)
    return dict(sorted(lines.items()))


def take_and_commit(granted: Sequence[Granted]) -> dict[int, Level]:
    """Take the units of grants, reserve them under the drawn ids and commit.

    Args:
        granted: purchases with different keys.

    Returns:
        The items' levels afterwards.

    Raises:
        commit.ConditionFailed: too few units are left, or a buyer would be over the limit.
        CommitUnknown: the connection failed.
    """
    units: Counter[int] = Counter()
    rows = []
    for grant in granted:
        purchase = grant.purchase
        units[purchase.item] += purchase.quantity
        ids = {"id": grant.reservation, "item": purchase.item}
        rows.append({**ids, **batch.row_of(purchase)})
    take = {"items": [*units], "units": [*units.values()], "reason": Reason.SALE}
    reserve = COUNT_AND_RESERVE.for_rows(len(granted)), {"rows": sql.rows(rows)}
    # Several rows are locked in order of id first.
    locks = [(guard.LOCK_ITEMS, take)] if len(units) > 1 else []
    with execute_and_commit([*locks, (guard.TAKE_OR_FAIL, take), reserve]) as cursor:
        for _ in locks:
            cursor.nextset()
        row = cursor.fetchone()
    assert row is not None
    items, available, versions, _ = row
    return dict(zip(items, map(Level, available, versions), strict=True))
