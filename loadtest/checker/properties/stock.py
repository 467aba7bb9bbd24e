"""P1, P2, P6 and P9: the stock, and the tokens under which it was written."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level

_LIVE = """
    SELECT snapshot, id AS item, total AS units, available, max(held + confirmed, coalesce(
        (SELECT sum(quantity - returned) FROM reservation AS r WHERE r.snapshot = item.snapshot
         AND r.item = item.id AND state <> 'released'), 0)) AS live,
        iif(snapshot, 'during the run (snapshot ' || snapshot || ')', 'at the end') AS moment
    FROM item ORDER BY snapshot = 0 DESC, snapshot
"""

MOST_OVERSOLD = f"""
    SELECT item, max(0, max(live - units), max(-available)) AS beyond FROM ({_LIVE}) GROUP BY item
"""
"""By how many units each item was oversold at the worst moment that a snapshot shows."""


class NoOversell(Property):
    """In every snapshot nothing is below zero and no more is live than there is."""

    id, name, level = "P1", "no oversell", Level.STOCK
    asks = "At no moment were more units sold or held than in stock."
    fails = "read-check-write code; a guard without its condition"
    planted = "more live than total"
    counts = "SELECT count(DISTINCT snapshot) AS snapshots FROM item"
    good = "{snapshots} snapshots, nothing oversold in any"
    nothing = "no snapshot shows an item"
    checks = (
        Check(
            "item {item}, {moment}: {live} sold or held of {units}, {beyond} too many",
            f"SELECT *, live - units AS beyond FROM ({_LIVE}) WHERE live > units",
            certain=True,
        ),
        Check(
            "item {item}, {moment}: {available} available",
            f"SELECT * FROM ({_LIVE}) WHERE available < 0 AND live <= units",
            certain=True,
        ),
    )


class Conservation(Property):
    """Available + held + confirmed = total, and the ledger's sum = available.

    What comes back is sold again or written off, as its sale wants for the way it came back. Parts
    have an event each; a whole order gives back what its parts have left. What expires is always
    sold again. Without events nothing is known of how units came back.
    """

    id, name, level = "P2", "conservation", Level.STOCK
    asks = "Every unit is available, held, sold or rightly written off, and the ledger adds up."
    fails = "stock returned twice, or never"
    planted = "stock restored twice"
    counts = "SELECT count(*) AS items FROM item WHERE snapshot = 0"
    good = "the books balance in every snapshot"
    nothing = "the final snapshot shows no item"
    checks = (
        Check(
            "item {item}, snapshot {snapshot}: {available} available + {held} held + {confirmed} "
            "confirmed, of {units}; the ledger says {ledger_sum}",
            """
            SELECT snapshot, id AS item, total AS units, available, held, confirmed, ledger_sum
            FROM item WHERE available + held + confirmed <> total OR ledger_sum <> available
            ORDER BY snapshot
            """,
            certain=True,
        ),
        Check(
            "item {item}: {said} {state} by its sum, {found} by its reservations",
            """
            WITH sums AS (
                SELECT id AS item, 'held' AS state, held AS said FROM item WHERE snapshot = 0
                UNION ALL SELECT id, 'confirmed', confirmed FROM item WHERE snapshot = 0)
            SELECT *, coalesce((SELECT sum(quantity - returned) FROM reservation AS r
                WHERE r.snapshot = 0 AND r.item = sums.item AND r.state = sums.state), 0) AS found
            FROM sums WHERE found <> said
            """,
        ),
        Check(
            "item {item}: movements add up to {moved} where the ledger says {ledger_sum}, and to "
            "{restocked} restocked and not written off, of {units}",
            """
            SELECT item.id AS item, total AS units, ledger_sum, sum(delta) AS moved, coalesce(
                   sum(delta) FILTER (WHERE reason IN ('restock', 'write_off')), 0) AS restocked
            FROM item JOIN movement AS m ON m.snapshot = 0 AND m.item = item.id
            WHERE item.snapshot = 0 GROUP BY item.id
            HAVING moved <> ledger_sum OR restocked <> total
            """,
        ),
        Check(
            "item {item}: {written_off} units were written off; by the sales' rules and what was "
            "given back it should be {wanted}",
            """
            WITH gone AS (
                SELECT o.item,
                    iif(restock_cancelled, 0, coalesce(parts.cancelled, 0)
                        + iif(ended.op = 'cancel', o.quantity - coalesce(parts.units, 0), 0))
                    + iif(restock_returned, 0, coalesce(parts.returned, 0)
                        + iif(ended.op = 'refund', o.quantity - coalesce(parts.units, 0), 0))
                    AS units
                FROM "order" AS o JOIN sale ON sale.snapshot = 0 AND sale.id = o.sale
                LEFT JOIN parts ON parts.order_id = o.id AND parts.sale = o.sale
                LEFT JOIN state AS ended ON ended.order_id = o.id
                    AND ended.op IN ('cancel', 'refund')
                WHERE o.snapshot = 0
            )
            SELECT item.id AS item,
                coalesce((SELECT sum(units) FROM gone WHERE gone.item = item.id), 0) AS wanted,
                coalesce((SELECT -sum(delta) FROM movement AS m WHERE m.snapshot = 0
                    AND m.item = item.id AND reason = 'write_off'), 0) AS written_off
            FROM item WHERE item.snapshot = 0 AND wanted <> written_off
                AND EXISTS (SELECT 1 FROM event)
            """,
        ),
    )


_SUMS = """
    SELECT
        (SELECT coalesce(sum(quantity), 0) FROM purchase WHERE outcome = 'ok') AS promised,
        (SELECT coalesce(sum(quantity), 0) FROM purchase WHERE outcome = 'info') AS open,
        (SELECT coalesce(sum(quantity), 0) FROM "order" WHERE snapshot = 0) AS sold,
        (SELECT count(*) FROM purchase WHERE outcome = 'info' AND EXISTS
            (SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = purchase.key))
            AS turned_out
"""
_FIGURES = "{promised} promised ≤ {sold} sold ≤ {promised} + {open} unknown"


class Bounds(Property):
    """What was promised ≤ what is sold ≤ what was promised or left open, in units."""

    id, name, level = "P6", "bounds", Level.STOCK
    asks = "Promised ≤ sold ≤ promised + unanswered, in units."
    fails = "any of the above, by their sums"
    planted = "more sold than asked"
    counts = _SUMS
    good = f"{_FIGURES}; {{turned_out}} of the unknown turned out sold"
    checks = (
        Check(
            f"not {_FIGURES}",
            f"SELECT * FROM ({_SUMS}) WHERE NOT sold BETWEEN promised AND promised + open",
        ),
    )


class Fencing(Property):
    """The accepted tokens of an item never decrease, and the item has seen the highest."""

    id, name, level = "P9", "fencing", Level.STOCK
    needs = Need.FENCING
    asks = "A process that lost the item's lock wrote nothing afterwards."
    fails = "a lock that is trusted after its lease has ended"
    planted = "stale token accepted"
    counts = """
        SELECT count(*) AS movements, count(DISTINCT token) AS tokens FROM movement
        WHERE snapshot = 0 AND token > 0
    """
    good = "{movements} movements under {tokens} tokens, none after a newer one"
    nothing = "no movement carries a fencing token"
    checks = (
        Check(
            "item {item}: movement {id} under token {token} after {highest}",
            """
            SELECT item, id, token, highest FROM (
                SELECT item, id, token, max(token) OVER (PARTITION BY item ORDER BY id) AS highest
                FROM movement WHERE snapshot = 0 AND token > 0
            ) WHERE token < highest
            """,
        ),
        Check(
            "item {item}: its fence {fence} is lower than the token {highest} that it accepted",
            """
            SELECT item.id AS item, fence, max(token) AS highest FROM item
            JOIN movement AS m ON m.snapshot = 0 AND m.item = item.id
            WHERE item.snapshot = 0 GROUP BY item.id HAVING fence < highest
            """,
        ),
        Check(
            "item {item}: its fence went from {before} back to {fence}",
            """
            SELECT item, fence, before, snapshot FROM (
                SELECT id AS item, fence, snapshot,
                       max(fence) OVER (PARTITION BY id ORDER BY taken_at) AS before
                FROM item JOIN snapshot ON snapshot.number = item.snapshot
            ) WHERE fence < before
            """,
        ),
    )
