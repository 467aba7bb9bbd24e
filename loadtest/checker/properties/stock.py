"""P1, P2 and P6: what is sold against what there was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Problem, Property, texts
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class NoOversell(Property):
    """In every snapshot nothing is below zero and no more is live than there is."""

    id, name, level = "P1", "no oversell", Level.STOCK
    asks = "At no moment were more units sold or held than in stock."
    fails = "read-check-write code; a guard without its condition"
    planted = "more live than total"

    def _judge(self, evidence: Evidence) -> Finding:
        snapshots = evidence.value("SELECT count(DISTINCT snapshot) FROM item")
        if not snapshots:
            return self.unknown("no snapshot shows an item")
        good = f"{snapshots} snapshots, nothing oversold in any"
        return self.judged(texts(self.so_far(evidence)), good)

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """What any snapshot shows."""
        yield from _oversold(evidence)


def _oversold(evidence: Evidence) -> Iterator[Problem]:
    for number, item, total, available, live in evidence.rows(
        """
        SELECT snapshot, id, total, available, max(held + confirmed, coalesce(
            (SELECT sum(quantity - returned) FROM reservation AS r WHERE r.snapshot = item.snapshot
             AND r.item = item.id AND state <> 'released'), 0)) AS live
        FROM item WHERE available < 0 OR live > total ORDER BY snapshot = 0 DESC, snapshot
        """
    ):
        where = f"during the run (snapshot {number})" if number else "at the end"
        if live > total:
            text = f"item {item}, {where}: {live} sold or held of {total}, {live - total} too many"
        else:
            text = f"item {item}, {where}: {available} available"
        yield Problem(text, beyond=(item, total))


class Conservation(Property):
    """Available + held + confirmed = total, and the ledger's sum = available."""

    id, name, level = "P2", "conservation", Level.STOCK
    asks = "Every unit is available, held, sold or rightly written off, and the ledger adds up."
    fails = "stock returned twice, or never"
    planted = "stock restored twice"

    def _judge(self, evidence: Evidence) -> Finding:
        items = evidence.value("SELECT count(*) FROM item WHERE snapshot = 0")
        if not items:
            return self.unknown("the final snapshot shows no item")
        problems = chain(texts(self.so_far(evidence)), _unexplained(evidence))
        return self.judged(problems, "the books balance in every snapshot")

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """Sums that do not fit in any snapshot."""
        yield from _unbalanced(evidence)


def _unbalanced(evidence: Evidence) -> Iterator[Problem]:
    for number, item, total, available, held, confirmed, ledger in evidence.rows(
        """
        SELECT snapshot, id, total, available, held, confirmed, ledger_sum FROM item
        WHERE available + held + confirmed <> total OR ledger_sum <> available ORDER BY snapshot
        """
    ):
        yield Problem(
            f"item {item}, snapshot {number}: {available} available + {held} held + {confirmed} "
            f"confirmed, of {total}; the ledger says {ledger}",
            beyond=(item, total),
        )


def _unexplained(evidence: Evidence) -> Iterator[str]:
    """Sums that reservations, movements and events do not explain."""
    for item, state, said, found in evidence.rows(
        """
        WITH sums AS (SELECT id, 'held' AS state, held AS said FROM item WHERE snapshot = 0
                      UNION ALL SELECT id, 'confirmed', confirmed FROM item WHERE snapshot = 0)
        SELECT *, coalesce((SELECT sum(quantity - returned) FROM reservation AS r
            WHERE r.snapshot = 0 AND r.item = sums.id AND r.state = sums.state), 0) AS found
        FROM sums WHERE found <> said
        """
    ):
        yield f"item {item}: {said} {state} by its sum, {found} by its reservations"
    for item, total, restocked, ledger, moved in evidence.rows(
        """
        SELECT item.id, total,
               sum(delta) FILTER (WHERE reason IN ('restock', 'write_off')) AS restocked,
               ledger_sum, sum(delta) AS moved
        FROM item JOIN movement AS m ON m.snapshot = 0 AND m.item = item.id
        WHERE item.snapshot = 0 GROUP BY item.id
        HAVING moved <> ledger_sum OR restocked IS NOT total
        """
    ):
        yield (
            f"item {item}: movements add up to {moved} where the ledger says {ledger}, and to "
            f"{restocked or 0} restocked and not written off, of {total}"
        )
    yield from _wrongly_written_off(evidence)


def _wrongly_written_off(evidence: Evidence) -> Iterator[str]:
    """What comes back is sold again or written off, as its sale wants for the way it came back.

    Parts have an event each; a whole order gives back what its parts have left. What expires is
    always sold again. Without events nothing is known of how units came back.
    """
    for item, wanted, written_off in evidence.rows(
        """
        WITH gone AS (
            SELECT o.item,
                iif(restock_cancelled, 0, coalesce(parts.cancelled, 0)
                    + iif(ended.event = 'cancelled', o.quantity - coalesce(parts.units, 0), 0))
                + iif(restock_returned, 0, coalesce(parts.returned, 0)
                    + iif(ended.event = 'returned', o.quantity - coalesce(parts.units, 0), 0))
                AS units
            FROM "order" AS o JOIN sale ON sale.snapshot = 0 AND sale.id = o.sale
            LEFT JOIN parts ON parts.order_id = o.id AND parts.sale = o.sale
            LEFT JOIN state AS ended ON ended.order_id = o.id
                AND ended.event IN ('cancelled', 'returned')
            WHERE o.snapshot = 0
        )
        SELECT item.id, coalesce((SELECT sum(units) FROM gone WHERE gone.item = item.id), 0)
                AS wanted,
            coalesce((SELECT -sum(delta) FROM movement AS m WHERE m.snapshot = 0
                AND m.item = item.id AND reason = 'write_off'), 0) AS written_off
        FROM item WHERE item.snapshot = 0 AND wanted <> written_off
            AND EXISTS (SELECT 1 FROM event)
        """
    ):
        yield (
            f"item {item}: {written_off} units were written off; by the sales' rules and what "
            f"was given back it should be {wanted}"
        )


class Bounds(Property):
    """What was promised ≤ what is sold ≤ what was promised or left open, in units."""

    id, name, level = "P6", "bounds", Level.STOCK
    asks = "Promised ≤ sold ≤ promised + unanswered, in units."
    fails = "any of the above, by their sums"
    planted = "more sold than asked"

    def _judge(self, evidence: Evidence) -> Finding:
        units = "SELECT coalesce(sum(quantity), 0) FROM purchase WHERE outcome = ?"
        promised, left_open = (evidence.value(units, outcome) for outcome in ("ok", "info"))
        sold = evidence.value('SELECT coalesce(sum(quantity), 0) FROM "order" WHERE snapshot = 0')
        turned_out = evidence.value(
            """
            SELECT count(*) FROM purchase WHERE outcome = 'info' AND EXISTS
                (SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = purchase.key)
            """
        )
        figures = f"{promised} promised ≤ {sold} sold ≤ {promised} + {left_open} unknown"
        good = f"{figures}; {turned_out} of the unknown turned out sold"
        problems = [] if promised <= sold <= promised + left_open else [f"not {figures}"]
        return self.judged(problems, good)
