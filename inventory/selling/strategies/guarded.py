"""``guard``: the conditional update, one transaction per purchase, with the hot row last.

Everything that conflicts with no other purchase is written first. The last message takes the units,
counts them against the limit, inserts the reservation and commits, so the item's row is locked for
as long as the server needs for that, and for no round trip.
"""

from __future__ import annotations

from typing import Any

from django.db import (
    DataError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from psycopg.errors import DivisionByZero

from inventory import failpoints, sql
from inventory.inserts import Insert, Statement
from inventory.models import BuyerQuota, Item, Reservation
from inventory.outcomes import Granted, LimitReached, OnGranted, Outcome, Purchase, SoldOut
from inventory.selling import guard
from inventory.selling.commit import CommitUnknown, LimitRaced, committing
from inventory.selling.replay import find
from inventory.selling.strategies.single import OnePerTransaction

NEXT_RESERVATION = "SELECT nextval(pg_get_serial_sequence('inventory_reservation', 'id'))"

RESERVATION = {
    "id": "id",
    **{name: name for name in ("item", "scope", "buyer", "key", "quantity")},
    "deadline": "now() + make_interval(secs => hold)",
}

# The guard and the limit fail by a division by zero, which ends the message before its COMMIT. The
# item comes first and the quota second, as wherever both are locked, or two could wait for each
# other.
TAKE_AND_COMMIT = Statement(
    guard.TAKE_OR_FAIL
    + """;
WITH counted AS (
    INSERT INTO inventory_buyerquota AS quota (scope, buyer, used, allowed)
    SELECT %(scope)s::bigint, %(buyer)s::bigint, %(units)s::int, %(limit)s::int
    WHERE %(units)s::int <= %(limit)s::int
    ON CONFLICT (scope, buyer) DO UPDATE
        SET used = quota.used + excluded.used, allowed = excluded.allowed
        WHERE quota.used + excluded.used <= excluded.allowed
    RETURNING used
)
SELECT 1 / count(*) FROM counted;
WITH request AS (
    SELECT %(reservation)s::bigint AS id, %(item)s::bigint AS item, %(scope)s::bigint AS scope,
           %(buyer)s::bigint AS buyer, %(key)s::uuid AS key, %(units)s::int AS quantity,
           %(hold)s::float8 AS hold, 1 AS position
)
{reservation};
COMMIT""",
    reservation=Insert(Reservation, RESERVATION, source="request"),
)


class _Refused(Exception):
    """The guard or the limit refused; rolls back what was written before."""


class Guard(OnePerTransaction):
    """Decrement only where enough is left, and commit in the same message."""

    name = "guard"
    summary = "conditional UPDATE, one transaction each"

    def _sell_once(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:
        try:
            with committing():
                if (known := find(purchase)) is not None:
                    return known
                with connection.cursor() as cursor:
                    cursor.execute(NEXT_RESERVATION)
                    granted = Granted(purchase, cursor.fetchone()[0])
                [granted.opened] = on_granted([granted])
                failpoints.hit(failpoints.BEFORE_COMMIT)
                _take_and_commit(purchase, granted.reservation)
        except _Refused:
            return _why_refused(purchase)
        failpoints.hit(failpoints.AFTER_COMMIT)
        return granted


def _take_and_commit(purchase: Purchase, reservation: int) -> None:
    parameters: dict[str, Any] = {
        **guard.to_take(purchase.item, purchase.quantity, token=None),
        "reservation": reservation,
        "scope": purchase.scope,
        "buyer": purchase.buyer,
        "key": purchase.key,
        "limit": purchase.limit,
        "hold": purchase.hold.total_seconds(),
    }
    try:
        with connection.wrap_database_errors, sql.cursor() as cursor:
            cursor.execute(TAKE_AND_COMMIT.for_rows(1), parameters)
    except DataError as error:
        if isinstance(error.__cause__, DivisionByZero):
            raise _Refused from error
        raise
    except (OperationalError, InterfaceError) as error:
        raise CommitUnknown(str(error)) from error


def _why_refused(purchase: Purchase) -> SoldOut | LimitReached:
    """Say which condition failed, in the order in which a batch asks.

    Raises:
        LimitRaced: neither fails any more; try again.
        guard.NoSuchItem: there is no such item.
    """
    with transaction.atomic():
        mine = BuyerQuota.objects.filter(scope=purchase.scope, buyer=purchase.buyer)
        left = max(purchase.limit - (mine.values_list("used", flat=True).first() or 0), 0)
        available = (
            Item.objects.filter(pk=purchase.item).values_list("available", flat=True).first()
        )
    if available is None:
        raise guard.NoSuchItem(purchase.item)
    if purchase.quantity > left:
        return LimitReached(left)
    if purchase.quantity > available:
        return SoldOut(available)
    raise LimitRaced("units or quota came back meanwhile")
