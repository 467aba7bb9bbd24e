"""Take the units of purchases in the message that commits them.

Everything that conflicts with no other purchase is written before, as if the units were taken. The
last message takes them, counts them against the limits, inserts the reservations and commits, so
the items' rows are locked for as long as the server needs for that, and for no round trip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from django.db import DataError, InterfaceError, OperationalError, connection
from psycopg.errors import DivisionByZero

from inventory import sql
from inventory.inserts import Insert, Statement
from inventory.models import Reservation
from inventory.outcomes import Granted, Level
from inventory.selling import guard
from inventory.selling.commit import CommitUnknown

# Drawn before the insert, because what the shop writes first refers to the reservations. It may:
# Django's foreign keys are checked at the commit.
NEXT_RESERVATIONS = """
SELECT nextval(pg_get_serial_sequence('inventory_reservation', 'id')) FROM generate_series(1, %s)
"""

RESERVATION = {
    "id": "id",
    **{name: name for name in ("item", "scope", "buyer", "key", "quantity")},
    "deadline": "now() + make_interval(secs => hold)",
}

REQUEST = """
WITH request AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(items)s::bigint[], %(scopes)s::bigint[],
                         %(buyers)s::bigint[], %(keys)s::uuid[], %(quantities)s::int[],
                         %(limits)s::int[], %(holds)s::float8[])
        WITH ORDINALITY
        AS request (id, item, scope, buyer, key, quantity, allowed, hold, position)
)"""

# Like the guard, the limit fails by a division by zero, which ends the message before its COMMIT.
# The items come first and the quotas second, as wherever both are locked, or two transactions could
# wait for each other.
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
SELECT 1 / (count(*) = (SELECT count(DISTINCT (scope, buyer)) FROM request))::int FROM counted;
"""
    + REQUEST
    + """
{reservation}""",
    reservation=Insert(Reservation, RESERVATION, source="request"),
)


class Refused(Exception):
    """The guard or a limit refused; everything of the transaction is rolled back."""


def draw_reservations(number: int) -> list[int]:
    """Return ids for reservations that are to be inserted."""
    with connection.cursor() as cursor:
        cursor.execute(NEXT_RESERVATIONS, [number])
        return [row[0] for row in cursor.fetchall()]


def take_and_commit(granted: Sequence[Granted]) -> dict[int, Level]:
    """Take the units of grants, reserve them under the drawn ids and commit.

    Args:
        granted: purchases with different keys.

    Returns:
        The items' levels afterwards.

    Raises:
        Refused: too few units are left, or a buyer would be over the limit.
        CommitUnknown: the connection failed.
    """
    purchases = [grant.purchase for grant in granted]
    units: Counter[int] = Counter()
    for purchase in purchases:
        units[purchase.item] += purchase.quantity
    items = sorted(units)  # in order of id, as wherever several items are locked
    parameters = {
        "ids": sql.array(grant.reservation for grant in granted),
        "items": sql.array(purchase.item for purchase in purchases),
        "scopes": sql.array(purchase.scope for purchase in purchases),
        "buyers": sql.array(purchase.buyer for purchase in purchases),
        "keys": sql.array(purchase.key.hex for purchase in purchases),
        "quantities": sql.array(purchase.quantity for purchase in purchases),
        "limits": sql.array(purchase.limit for purchase in purchases),
        "holds": sql.array(purchase.hold.total_seconds() for purchase in purchases),
    }
    try:
        with connection.wrap_database_errors, sql.cursor() as cursor:
            text = [
                cursor.mogrify(guard.TAKE_OR_FAIL, guard.to_take(item, units[item], token=None))
                for item in items
            ]
            text.append(cursor.mogrify(COUNT_AND_RESERVE.for_rows(len(granted)), parameters))
            cursor.execute(";".join([*text, "COMMIT"]).encode())
            rows = [result.fetchone() for result in cursor.results() if result.description]
    except DataError as error:
        if isinstance(error.__cause__, DivisionByZero):
            raise Refused from error
        raise
    except (OperationalError, InterfaceError) as error:
        raise CommitUnknown(str(error)) from error
    return {item: Level(*row[:2]) for item, row in zip(items, rows, strict=False) if row}
