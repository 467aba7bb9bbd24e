"""Sell purchases of any items in one transaction, whose last message takes the units and commits.

`look` reads what the decision needs, and the rules decide. The shop then opens what it needs, as if
the units were taken. The last message takes them, counts them against the limits, inserts the
reservations and commits, so the items' rows are locked for as long as the server needs for that,
and for no round trip.

Correct without the items' locks: where anything was sold in between, the conditions of the last
message end it before its COMMIT. Only a refusal has no condition that could be checked later, so it
needs the item's row to be locked before the look.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from django.db import connection

from inventory import sql
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, hooks
from inventory.models import Reservation, StockMovement
from inventory.outcomes import Granted, Level, NoSuchItem, OnGranted, PurchaseTicket, StaleToken
from inventory.selling import guard
from inventory.selling.commit import committing, execute_and_commit
from inventory.selling.rules import Decision, Known, decide
from inventory.sql import Insert, Statement

HELD, CONFIRMED = Reservation.State.HELD.value, Reservation.State.CONFIRMED.value

# A plain FOR UPDATE would also block the foreign-key checks of other transactions. In order of id,
# as wherever several items are locked, or two transactions could wait for each other.
ITEMS: LiteralString = """
SELECT id, available, version, fence FROM inventory_item WHERE id = ANY(%(items)s::bigint[])
ORDER BY id"""
LOCKED: LiteralString = " FOR NO KEY UPDATE"

# Separate statements after the row lock: at READ COMMITTED they see everything committed before the
# lock was granted. Ids are drawn before the insert, because what the shop writes first refers to
# the reservations. It may: Django's foreign keys are checked at the commit.
REQUESTS: LiteralString = """;
SELECT request.buyer, request.key, request.scope,
       known.id, known.item_id, known.scope, known.quantity, quota.used
FROM json_to_recordset(%(rows)s) AS request (buyer bigint, key uuid, scope bigint)
LEFT JOIN inventory_reservation AS known
       ON known.buyer = request.buyer AND known.key = request.key
LEFT JOIN inventory_buyerquota AS quota
       ON quota.scope = request.scope AND quota.buyer = request.buyer
WHERE known.id IS NOT NULL OR quota.used IS NOT NULL;
SELECT nextval('inventory_reservation_id_seq') FROM generate_series(1, %(number)s)
"""

LOOK: LiteralString = ITEMS + REQUESTS
LOCK_AND_LOOK: LiteralString = ITEMS + LOCKED + REQUESTS

RESERVATION = {
    **{name: name for name in ("id", "item", "scope", "buyer", "key", "quantity")},
    "token": "%(token)s",
    "state": "state",
    "deadline": "now() + make_interval(secs => hold)",
}

# Like the guard, the limit ends the message before its COMMIT. The items come first and the quotas
# second, as wherever both are locked, or two transactions could wait for each other.
RESERVE = Statement(
    """
WITH request AS (
    SELECT *, ordinality AS position FROM ROWS FROM (json_to_recordset(%(rows)s) AS (
        id bigint, item bigint, scope bigint, buyer bigint, key uuid, quantity int, allowed int,
        hold float8, state text, quotas json
    )) WITH ORDINALITY
), further AS (
    SELECT request.id, request.quantity, quota.*
    FROM request, json_to_recordset(request.quotas) AS quota
        (scope bigint, subject bigint, allowed int)
), counting AS (
    SELECT scope, buyer, quantity, allowed FROM request
    UNION ALL SELECT scope, subject, quantity, allowed FROM further
), counted AS (
    INSERT INTO inventory_buyerquota AS quota (scope, buyer, used, allowed)
    SELECT scope, buyer, sum(quantity), max(allowed) FROM counting GROUP BY scope, buyer
    HAVING sum(quantity) <= max(allowed)
    ORDER BY scope, buyer
    ON CONFLICT (scope, buyer) DO UPDATE
        SET used = quota.used + excluded.used, allowed = excluded.allowed
        WHERE quota.used + excluded.used <= excluded.allowed
    RETURNING used
), reserved AS (
    {reservation}
), remembered AS (
    INSERT INTO inventory_reservationquota (reservation_id, scope, subject)
    SELECT id, scope, subject FROM further
)
SELECT inventory_require(count(*) = (SELECT count(DISTINCT (scope, buyer)) FROM counting))
FROM counted
""",
    reservation=Insert(Reservation, RESERVATION, source="request"),
)


class Seen(NamedTuple):
    """An item and the purchases of it, decided by what was seen.

    Attributes:
        tickets: the purchases, with their answers; a repeat of a key in the batch has none yet.
        level: the item's level before them.
        granted: the grants to write, in order of arrival, under ids that were drawn for them.
    """

    item: int
    tickets: Sequence[PurchaseTicket]
    level: Level
    decision: Decision
    granted: Sequence[Granted]


def sell(
    tickets: Sequence[PurchaseTicket],
    on_granted: OnGranted,
    token: int | None = None,
    *,
    locked: bool = False,
) -> dict[int, Level]:
    """Decide and write purchases in one transaction, commit it, and fill in the answers.

    Purchases of one item are all decided. Of several items, those of which a purchase would be
    refused are left without an answer, and nothing is written for them: their rows are not locked.

    Args:
        tickets: purchases, in order of arrival; not empty.
        on_granted: opens what the shop needs for each grant, in the same transaction.
        token: fencing token of the item's lock; None without the lock.
        locked: lock the rows before the look, and not only for a refusal.

    Returns:
        The levels afterwards of the items that were decided.

    Raises:
        StaleToken: a newer holder of the lock has written; nothing was written.
        ConditionFailed: units or a limit were used in another purchase; nothing was written.
        NoSuchItem: no such item.
        CommitUnknown: the connection failed at the commit.
        Exception: any error of the database or of `on_granted`; nothing was written.
    """
    with committing():
        seen = look(tickets, token, locked=locked)
        alone = len(seen) == 1
        if alone and seen[0].decision.refuses and not locked:
            locked = True
            seen = look(tickets, token, locked=True)
        levels: dict[int, Level] = {}
        granted: list[Granted] = []
        for each in seen:
            if alone or not each.decision.refuses:
                levels[each.item] = each.level
                granted += each.granted
        if granted:
            levels |= open_and_commit(granted, on_granted, token, locked=locked)
    for each in seen:
        if each.item not in levels:
            forget_answers(each.tickets)
        elif each.decision.repeats:
            each.decision.answer_repeats()
    if granted:
        hooks.failpoint(AFTER_COMMIT)
    return levels


def forget_answers(tickets: Sequence[PurchaseTicket]) -> None:
    """Take back the answers of tickets that will be tried again."""
    for ticket in tickets:
        ticket.answer = None


def look(
    tickets: Sequence[PurchaseTicket], token: int | None = None, *, locked: bool = False
) -> list[Seen]:
    """Decide purchases by what one message reads, in the caller's transaction.

    Args:
        tickets: purchases of any items, in order of arrival; their answers are filled in.
        token: fencing token of the item's lock; None without the lock.
        locked: lock the items' rows first.

    Returns:
        What was seen of each item, in order of its first purchase.

    Raises:
        StaleToken: a newer holder of the lock has written.
        NoSuchItem: no such item.
    """
    lines: dict[int, list[PurchaseTicket]] = defaultdict(list)
    rows: list[dict[str, int | str | None]] = []
    for ticket in tickets:
        each = ticket.request
        lines[each.item].append(ticket)
        rows.append({"buyer": each.buyer, "key": each.key.hex, "scope": each.scope})
        # Without a key: only what is used of the quota is asked for.
        rows += [
            {"buyer": quota.subject, "key": None, "scope": quota.scope} for quota in each.quotas
        ]
    statement = LOCK_AND_LOOK if locked else LOOK
    with connection.wrap_database_errors:
        cursor = sql.send(statement, rows, {"items": [*lines], "number": len(tickets)})
        items = {item: found for item, *found in cursor}
        cursor.nextset()
        known, used = known_and_used(cursor)
        cursor.nextset()
        ids = iter(cursor.fetchall())
    seen = []
    for item, of_item in lines.items():
        if item not in items:
            raise NoSuchItem(item)
        available, version, fence = items[item]
        if token is not None and fence > token:
            # The guard checks this again; refusing here saves the work.
            raise StaleToken(f"token {token} is older than {fence}")
        decision = decide(of_item, available, known, used)
        granted = []
        for ticket in decision.granted:
            ticket.answer = Granted(ticket.request, *next(ids))
            granted.append(ticket.answer)
        seen.append(Seen(item, of_item, Level(available, version), decision, granted))
    return seen


def known_and_used(
    cursor: psycopg.ClientCursor,
) -> tuple[dict[tuple[int, UUID], Known], dict[tuple[int, int], int]]:
    """Read what `inventory.selling.rules.decide` needs of the requests."""
    known: dict[tuple[int, UUID], Known] = {}
    used: dict[tuple[int, int], int] = {}
    for buyer, key, scope, reservation, of_item, of_scope, quantity, units in cursor:
        if reservation is not None:
            known[buyer, key] = Known(reservation, of_item, of_scope, quantity)
        if units is not None:
            used[scope, buyer] = units
    return known, used


def open_and_commit(
    granted: Sequence[Granted],
    on_granted: OnGranted,
    token: int | None = None,
    *,
    locked: bool = False,
) -> dict[int, Level]:
    """Let the shop open what it needs for each grant, take the units and commit.

    Args:
        granted: at least one, with different keys, under drawn ids.
        on_granted: opens what the shop needs, in the same transaction.
        token: fencing token of the item's lock; None without the lock.
        locked: whether the items' rows are locked.

    Returns:
        The items' levels afterwards.

    Raises:
        ConditionFailed: too few units are left, a buyer would be over the limit, or a key was used.
        CommitUnknown: the connection failed.
    """
    for grant, opened in zip(granted, on_granted(granted), strict=True):
        grant.opened = opened
    hooks.failpoint(BEFORE_COMMIT)
    statements = taking(granted, token)
    with execute_and_commit(statements, locked=locked) as cursor:
        return levels_of(cursor, len(statements))


def taking(
    granted: Sequence[Granted], token: int | None = None
) -> list[tuple[Any, dict[str, Any]]]:
    """Return the statements that take the units of grants and reserve them, with parameters."""
    units: Counter[int] = Counter()
    rows = []
    for grant in granted:
        each = grant.purchase
        units[each.item] += each.quantity
        rows.append(
            {
                "id": grant.reservation,
                "item": each.item,
                "scope": each.scope,
                "buyer": each.buyer,
                "key": each.key.hex,
                "quantity": each.quantity,
                "allowed": each.limit,
                "hold": each.hold.total_seconds(),
                "state": CONFIRMED if grant.final else HELD,
                "quotas": [
                    {"scope": scope, "subject": subject, "allowed": limit}
                    for scope, subject, limit in each.quotas
                ],
            }
        )
    take = guard.to_take(units, StockMovement.Reason.SALE, token)
    reserve = RESERVE.fixed or RESERVE.for_rows(len(rows))
    written = {"rows": sql.rows(rows), "token": token}
    # Several rows are locked in order of id first.
    locks = [(guard.LOCK_ITEMS, take)] if len(units) > 1 else []
    return [*locks, (guard.TAKE_OR_FAIL, take), (reserve, written)]


def levels_of(cursor: psycopg.ClientCursor, statements: int) -> dict[int, Level]:
    """Return the items' levels from the result of that many statements of `taking`."""
    if statements > 2:
        cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    items, available, versions, _ = row
    return dict(zip(items, map(Level, available, versions), strict=True))
