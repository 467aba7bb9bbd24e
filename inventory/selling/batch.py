"""Sell a batch of purchases and carts in one transaction, whose last message takes the units and
commits.

In this order, for a batch of any size:

1. `look` reads the items' levels, the buyers' earlier purchases and their limits in one message,
   and the rules (`inventory.selling.rules`) decide on these.
2. The shop opens what it needs (its orders), as if the units were taken.
3. One last message takes the units, counts them against the limits, inserts the reservations and
   commits (`open_and_commit`). So the items' rows are locked while the server executes this
   message, and for no round trip.

This is correct without a lock on the items: if anything was sold since the look, the conditions in
the last message (such as `available >= units`) end it before its COMMIT. A refusal has no such
condition, because nothing is written for it, so the items' rows are locked before a look that
refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from django.db import connection, transaction

from inventory import sql
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, hooks
from inventory.models import Reservation, StockMovement
from inventory.outcomes import (
    Cart,
    CartTicket,
    Granted,
    Level,
    LineRefused,
    NotReserved,
    OnGranted,
    Purchase,
    StaleToken,
)
from inventory.selling import guard
from inventory.selling.commit import committing, execute_and_commit, execute_together
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
        (scope bigint, subject bigint, "limit" int)
), counting AS (
    SELECT scope, buyer, quantity, allowed FROM request
    UNION ALL SELECT scope, subject, quantity, "limit" FROM further
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


def sell(
    tickets: Sequence[CartTicket], token: int | None = None, *, locked: bool = False
) -> dict[int, Level]:
    """Decide and write tickets in one transaction, commit it, and fill in the answers.

    Without `locked`, a refusal is not final, because the rows of its items are not locked. If the
    rules refuse some tickets, the tickets of those items are left without an answer, to be sold
    again with `locked`; the others are sold now. If no other tickets are left, this locks the rows
    itself, and each ticket gets its answer.

    Args:
        tickets: in order of arrival; not empty.
        token: fencing token of the lock of the only item; None without the lock.
        locked: lock the rows before the look, and not only for a refusal.

    Returns:
        The items' levels afterwards.

    Raises:
        StaleToken: a newer holder of the lock has written; nothing was written.
        ConditionFailed: units or a limit were used in another purchase; nothing was written.
        CommitUnknown: the connection failed at the commit.
        Exception: any error of the database or of a shop's `on_granted`; nothing was written.
    """
    undecided: set[CartTicket] = set()
    with committing():
        decision, levels = look(tickets, token, locked=locked)
        if decision.refused and not locked:
            undecided = _sharing_items(decision.refused, tickets)
            if len(undecided) == len(tickets):
                undecided, locked = set(), True
                decision, levels = look(tickets, token, locked=True)
        granted = decision.granted
        if undecided:
            granted = [ticket for ticket in granted if ticket not in undecided]
        if granted:
            levels |= open_and_commit(granted, token, locked=locked)
    for ticket in undecided:
        ticket.answer = None
    if decision.repeats:
        decision.answer_repeats()
    if granted:
        hooks.failpoint(AFTER_COMMIT)
    return levels


def reserve_inside(purchases: Sequence[Purchase]) -> list[Granted]:
    """Reserve purchases in the caller's transaction, for a shop whose checkout has its own.

    The items' rows are locked from here to the caller's commit, so call it last. Other buyers of
    these items wait meanwhile, and no two purchases share a commit: `reserve` and `reserve_many`
    sell more per second.

    Args:
        purchases: each with its own key.

    Returns:
        The grants, in the order of the purchases.

    Raises:
        NotReserved: one was refused; the caller's transaction must roll back.
        NoSuchItem: no such item.
        TransactionManagementError: there is no transaction.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("this runs in its caller's transaction")
    ticket = CartTicket(Cart(purchases, _open_nothing))
    decision, _ = look([ticket], locked=True)
    answer = ticket.answer
    if isinstance(answer, LineRefused):
        raise NotReserved(answer)
    if isinstance(answer, BaseException):
        raise answer
    assert answer is not None
    if decision.granted:
        execute_together(taking(answer)).close()
    return answer


def _open_nothing(granted: Sequence[Granted]) -> Sequence[None]:
    return [None] * len(granted)


def _sharing_items(chosen: Sequence[CartTicket], tickets: Sequence[CartTicket]) -> set[CartTicket]:
    """Return the tickets that have an item in common with the chosen ones."""
    items = {line.item for ticket in chosen for line in ticket.request.lines}
    return {
        ticket for ticket in tickets if any(line.item in items for line in ticket.request.lines)
    }


def look(
    tickets: Sequence[CartTicket], token: int | None = None, *, locked: bool = False
) -> tuple[Decision, dict[int, Level]]:
    """Decide tickets by what one message reads, in the caller's transaction.

    Args:
        tickets: in order of arrival; their answers are filled in, those of granted ones under ids
            that were drawn for them.
        token: fencing token of the lock of the only item; None without the lock.
        locked: lock the items' rows first.

    Returns:
        The decision, and the items' levels before it.

    Raises:
        StaleToken: a newer holder of the lock has written.
    """
    items: set[int] = set()
    rows: list[dict[str, int | str | None]] = []
    lines = 0
    for ticket in tickets:
        for line in ticket.request.lines:
            lines += 1
            items.add(line.item)
            rows.append({"buyer": line.buyer, "key": line.key.hex, "scope": line.scope})
            if line.quotas:
                # Without a key: only what is used of the quota is asked for.
                rows += [
                    {"buyer": quota.subject, "key": None, "scope": quota.scope}
                    for quota in line.quotas
                ]
    statement = LOCK_AND_LOOK if locked else LOOK
    with connection.wrap_database_errors:
        cursor = psycopg.ClientCursor(connection.connection).execute(
            statement, {"rows": sql.rows(rows), "items": [*items], "number": lines}
        )
        found = cursor.fetchall()
        cursor.nextset()
        known: dict[tuple[int, UUID], Known] = {}
        used: dict[tuple[int, int], int] = {}
        for buyer, key, scope, reservation, of_item, of_scope, quantity, taken in cursor:
            if reservation is not None:
                known[buyer, key] = Known(reservation, of_item, of_scope, quantity)
            if taken is not None:
                used[scope, buyer] = taken
        cursor.nextset()
        ids = iter(cursor.fetchall())
    units: dict[int, int] = {}
    levels: dict[int, Level] = {}
    for item, available, version, fence in found:
        if token is not None and fence > token:
            # The guard checks this again; refusing here saves the work.
            raise StaleToken(f"token {token} is older than {fence}")
        units[item], levels[item] = available, Level(available, version)
    decision = decide(tickets, units, known, used)
    for ticket in decision.granted:
        granted: list[Granted] = []
        for line in ticket.request.lines:
            [reservation] = next(ids)
            granted.append(Granted(line, reservation, line=len(granted)))
        ticket.answer = granted
    return decision, levels


def open_and_commit(
    tickets: Sequence[CartTicket], token: int | None = None, *, locked: bool = False
) -> dict[int, Level]:
    """Let the shop open what it needs for each grant, take the units and commit.

    Args:
        tickets: granted ones; at least one, with different keys, under drawn ids.
        token: fencing token of the lock of the only item; None without the lock.
        locked: whether the items' rows are locked.

    Returns:
        The items' levels afterwards.

    Raises:
        ConditionFailed: too few units are left, a buyer would be over the limit, or a key was used.
        CommitUnknown: the connection failed.
    """
    granted = open_granted(tickets)
    hooks.failpoint(BEFORE_COMMIT)
    statements = taking(granted, token)
    with execute_and_commit(statements, locked=locked) as cursor:
        return levels_of(cursor, len(statements))


def open_granted(tickets: Sequence[CartTicket]) -> list[Granted]:
    """Let the shop open what it needs for granted tickets, in the caller's transaction.

    Each function is called once, for all grants of the tickets that name it.

    Returns:
        The grants.
    """
    granted: list[Granted] = []
    to_open: dict[OnGranted, list[Granted]] = {}
    for ticket in tickets:
        assert isinstance(ticket.answer, list)
        granted += ticket.answer
        to_open.setdefault(ticket.request.on_granted, []).extend(ticket.answer)
    for on_granted, grants in to_open.items():
        for grant, opened in zip(grants, on_granted(grants), strict=True):
            grant.opened = opened
    return granted


def taking(
    granted: Sequence[Granted], token: int | None = None
) -> list[tuple[Any, dict[str, Any]]]:
    """Return the statements that take the units of grants and reserve them, with parameters."""
    units: Counter[int] = Counter()
    rows = []
    for grant in granted:
        line = grant.purchase
        units[line.item] += line.quantity
        rows.append(
            {
                "id": grant.reservation,
                "item": line.item,
                "scope": line.scope,
                "buyer": line.buyer,
                "key": line.key.hex,
                "quantity": line.quantity,
                "allowed": line.limit,
                "hold": line.hold.total_seconds(),
                "state": CONFIRMED if grant.final else HELD,
                "quotas": [quota._asdict() for quota in line.quotas] if line.quotas else (),
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
