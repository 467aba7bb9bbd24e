"""Sell a batch of purchases of one item in one transaction.

Correct without the item's lock: the first statement locks the item's row, which serialises batches
of all processes, and the guard decides. The lock only keeps the processes from waiting for the row
with a connection each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from django.db import connection

from inventory import sql
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, hooks
from inventory.models import Reservation
from inventory.outcomes import (
    Granted,
    Level,
    NoSuchItem,
    OnGranted,
    Purchase,
    PurchaseTicket,
    StaleToken,
)
from inventory.selling import guard
from inventory.selling.commit import LimitRaced, committing
from inventory.selling.rules import Decision, Known, decide
from inventory.sql import Insert, Statement

# UPDATE of these columns takes FOR NO KEY UPDATE; a plain FOR UPDATE would also block the
# foreign-key checks of other transactions.
LOCK_ITEM: LiteralString = (
    "SELECT available, version, fence FROM inventory_item WHERE id = %(item)s FOR NO KEY UPDATE"
)

# A separate statement after the row lock: at READ COMMITTED it sees everything committed before
# the lock was granted. In one statement with the lock it would see an older state.
READ_BATCH: LiteralString = """
SELECT request.buyer, request.key, request.scope,
       known.id, known.item_id, known.scope, known.quantity, quota.used
FROM json_to_recordset(%(rows)s) AS request (buyer bigint, key uuid, scope bigint)
LEFT JOIN inventory_reservation AS known
       ON known.buyer = request.buyer AND known.key = request.key
LEFT JOIN inventory_buyerquota AS quota
       ON quota.scope = request.scope AND quota.buyer = request.buyer
WHERE known.id IS NOT NULL OR quota.used IS NOT NULL
"""

LOCK_AND_READ: LiteralString = LOCK_ITEM + ";" + READ_BATCH

RESERVATION = {
    **{name: name for name in ("scope", "buyer", "key", "quantity")},
    "item": "%(item)s",
    "token": "%(token)s",
    "deadline": "now() + make_interval(secs => hold)",
}

# Reservations and quotas in one round trip. The quota's condition guards the limit: a buyer over
# the limit is missing from the count.
WRITE_BATCH = """
WITH request AS (
    SELECT *, ordinality AS position FROM ROWS FROM (json_to_recordset(%(rows)s) AS (
        scope bigint, buyer bigint, key uuid, quantity int, allowed int, hold float8
    )) WITH ORDINALITY
), counted AS (
    INSERT INTO inventory_buyerquota AS quota (scope, buyer, used, allowed)
    SELECT scope, buyer, sum(quantity), max(allowed) FROM request GROUP BY scope, buyer
    ORDER BY scope, buyer
    ON CONFLICT (scope, buyer) DO UPDATE
        SET used = quota.used + excluded.used, allowed = excluded.allowed
        WHERE quota.used + excluded.used <= excluded.allowed
    RETURNING quota.used
), reserved AS (
    {reservation} ORDER BY position
    RETURNING id, buyer
)
SELECT array_agg(id), array_agg(buyer), (SELECT count(*) FROM counted) FROM reserved
"""

WRITE = Statement(WRITE_BATCH, reservation=Insert(Reservation, RESERVATION, source="request"))

# Both statements in one round trip while the item is locked and the next batch waits. If the guard
# refuses, both are rolled back.
WRITE_AND_TAKE = Statement(
    WRITE_BATCH + ";" + guard.TAKE,
    reservation=Insert(Reservation, RESERVATION, source="request"),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch that was written and is not yet committed.

    Attributes:
        decision: the grants.
        granted: answers of the granted tickets, in order of arrival.
        level: the item's level afterwards.
    """

    decision: Decision
    granted: list[Granted]
    level: Level


Write = Callable[[Sequence[PurchaseTicket], int | None], Written]


def sell(
    tickets: Sequence[PurchaseTicket],
    on_granted: OnGranted,
    token: int | None,
    write_batch: Write | None = None,
) -> Level:
    """Decide and write a batch in one transaction, commit it, and fill in the answers.

    Args:
        tickets: purchases of one item, in order of arrival; not empty.
        on_granted: opens what the shop needs for each grant, in the same transaction.
        token: fencing token of the item's lock; None without the lock.
        write_batch: decides and writes; None for `write`.

    Returns:
        The item's level afterwards.

    Raises:
        StaleToken: a newer holder of the lock has written; nothing was written.
        LimitRaced: another purchase moved a buyer's quota; nothing was written.
        NoSuchItem: no such item.
        CommitUnknown: the connection failed at the commit.
        Exception: any error of the database or of `on_granted`; nothing was written.
    """
    with committing():
        written = (write_batch or write)(tickets, token)
        open_all(written.granted, on_granted)
    if written.decision.repeats:
        written.decision.answer_repeats()
    if written.granted:
        hooks.failpoint(AFTER_COMMIT)
    return written.level


def write(tickets: Sequence[PurchaseTicket], token: int | None) -> Written:
    """Decide a batch and write its grants, in the caller's transaction.

    Afterwards all tickets have their answer, except repeats of a key in the same batch.

    Arguments and errors as for `sell`.
    """
    decision, level = read_and_decide(tickets, token)
    granted: list[Granted] = []
    if decision.granted:
        take = guard.to_take(tickets[0].request.item, decision.units, token)
        with connection.wrap_database_errors:
            granted, cursor = insert(WRITE_AND_TAKE, decision, take)
            cursor.nextset()
            level = guard.taken(cursor, take)
    return Written(decision, granted, level)


def open_all(granted: Sequence[Granted], on_granted: OnGranted) -> None:
    """Let the shop open what it needs for each grant, in the same transaction."""
    if granted:
        for grant, opened in zip(granted, on_granted(granted), strict=True):
            grant.opened = opened
        hooks.failpoint(BEFORE_COMMIT)


def read_and_decide(
    tickets: Sequence[PurchaseTicket], token: int | None, statement: LiteralString = LOCK_AND_READ
) -> tuple[Decision, Level]:
    """Read the data for a decision, and decide; the level is that before the batch."""
    item = tickets[0].request.item
    with connection.wrap_database_errors:
        cursor = sql.send(statement, asked(tickets), {"item": item})
        row = cursor.fetchone()
        if row is None:
            raise NoSuchItem(item)
        available, version, fence = row
        if token is not None and fence > token:
            # The guard checks this again; refusing here saves the work.
            raise StaleToken(f"token {token} is older than {fence}")
        cursor.nextset()
        known, used = known_and_used(cursor)
    return decide(tickets, available, known, used), Level(available, version)


def asked(tickets: Sequence[PurchaseTicket]) -> list[dict[str, int | str]]:
    """Return the rows of `READ_BATCH`."""
    return [
        {"buyer": each.buyer, "key": each.key.hex, "scope": each.scope}
        for ticket in tickets
        for each in (ticket.request,)
    ]


def known_and_used(
    cursor: psycopg.ClientCursor,
) -> tuple[dict[tuple[int, UUID], Known], dict[tuple[int, int], int]]:
    """Read the result of `READ_BATCH`: what `inventory.selling.rules.decide` needs."""
    known: dict[tuple[int, UUID], Known] = {}
    used: dict[tuple[int, int], int] = {}
    for buyer, key, scope, reservation, of_item, of_scope, quantity, units in cursor:
        if reservation is not None:
            known[buyer, key] = Known(reservation, of_item, of_scope, quantity)
        if units is not None:
            used[scope, buyer] = units
    return known, used


def row_of(purchase: Purchase) -> dict[str, int | float | str]:
    """Return a purchase as `WRITE` reads it."""
    return {
        "scope": purchase.scope,
        "buyer": purchase.buyer,
        "key": purchase.key.hex,
        "quantity": purchase.quantity,
        "allowed": purchase.limit,
        "hold": purchase.hold.total_seconds(),
    }


def insert(
    statement: Statement, decision: Decision, take: Mapping[str, Any]
) -> tuple[list[Granted], psycopg.ClientCursor]:
    """Insert reservations, count quotas and answer the granted tickets.

    Args:
        statement: `WRITE`, alone or followed by others.
        decision: at least one grant.
        take: parameters of `guard.TAKE`.

    Returns:
        The answers, in order of arrival; and the cursor at the result of the first part.
    """
    rows = [row_of(ticket.request) for ticket in decision.granted]
    cursor = statement.send(rows, take)
    row = cursor.fetchone()
    assert row is not None
    reservations, written_for, quotas = row
    if quotas != len({(each["scope"], each["buyer"]) for each in rows}):
        raise LimitRaced("the buyer's limit is being used in another purchase")
    granted = []
    for ticket, reservation, buyer in zip(decision.granted, reservations, written_for, strict=True):
        assert buyer == ticket.request.buyer, "INSERT ... SELECT ... ORDER BY kept another order"
        ticket.answer = Granted(ticket.request, reservation)
        granted.append(ticket.answer)
    return granted, cursor
