"""P7 and P8: whether "sold out" was true when it was said, and stayed true.

Both walk through the run in time order, one item at a time, and keep only what is under way.
They rest on two facts about a shop that does what it says, where a call takes effect at some
moment between its begin and its end: a refusal means that at some such moment fewer units were
left than were asked for; and units leave the stock by purchases, return by releases and restocks,
each within the bounds that were seen from outside.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Need, Property
from loadtest.checker.verdict import Problem
from loadtest.shop import Level

_REFUSALS = """
    SELECT call.start, call."end", call.quantity, call.key FROM call
    JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale
    WHERE op = 'order' AND code = 'sold_out' AND outcome = 'fail' AND sale.item = ?
    ORDER BY call."end"
"""


class NoPhantomRejection(Property):
    """Every `sold_out` was justified, and no unit is left over after a refusal."""

    id, name, level = "P7", "no phantom rejection", Level.STOCK
    needs = Need.SOLD_OUT
    asks = "“Sold out” was true whenever a buyer was answered so, and no unit was left behind."
    fails = "a stale sold-out hint; units stranded in a cache"
    planted = "refused while there was stock"

    counts = "SELECT count(*) AS refusals FROM call WHERE code = 'sold_out'"
    good = "{refusals} refusals for want of stock, each justified"

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """Refusals while there was stock, and stock that was left over."""
        for item, opening in list(evidence.rows("SELECT item, total FROM opening")):
            yield from _refused_too_early(evidence, item, opening)
            yield from _left_over(evidence, item)


def _refused_too_early(evidence: Evidence, item: str, opening: int) -> Iterator[Problem]:
    """Refusals finished when requests begun before could not have taken enough.

    A restock certainly counts when it was over before the refused request began.
    """
    restocks = _Sums(
        evidence.rows(
            """SELECT "end", quantity FROM call
            WHERE op = 'restock' AND outcome = 'ok' AND item = ? ORDER BY "end" """,
            item,
        )
    )
    takers = evidence.rows("SELECT start, quantity FROM taken WHERE item = ? ORDER BY start", item)
    gone, taker = 0, next(takers, None)
    for start, end, quantity, key in evidence.rows(_REFUSALS, item):
        while taker is not None and taker[0] <= end:
            gone += taker[1]
            taker = next(takers, None)
        left = opening + restocks.before(start) - gone
        if left >= quantity:
            facts = {"key": key, "quantity": quantity, "item": item, "end": end}
            yield Problem(
                "key {key} was refused {quantity} of item {item} at {end}, when at most {gone} "
                "were taken and at least {left} were left",
                facts | {"gone": gone, "left": left},
            )


def _left_over(evidence: Evidence, item: str) -> Iterator[Problem]:
    """Units at the end that never came back, so that they were available at every refusal."""
    asked = evidence.value(
        """
        SELECT min(call.quantity) FROM call
        JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale
        WHERE op = 'order' AND code = 'sold_out' AND outcome = 'fail' AND sale.item = ?
        """,
        item,
    )
    written_off = evidence.value(
        """SELECT coalesce(-sum(delta), 0) FROM movement
        WHERE snapshot = 0 AND reason = 'write_off' AND item = ?""",
        item,
    )
    available, more = next(
        evidence.rows(
            """
            SELECT available, item.total - opening.total FROM item
            JOIN opening ON opening.item = item.id WHERE snapshot = 0 AND id = ?
            """,
            item,
        )
    )
    restocked = more + written_off  # which has lowered the total again
    given_back = evidence.value(
        """SELECT coalesce(sum(CASE state WHEN 'released' THEN quantity ELSE returned END), 0)
        FROM reservation WHERE snapshot = 0 AND item = ?""",
        item,
    )
    came_back = given_back - written_off
    stranded = available - restocked - came_back
    if asked is not None and stranded >= asked:
        facts = {"item": item, "available": available, "back": restocked + came_back}
        yield Problem(
            "item {item}: {available} left at the end, of which at most {back} came back, and "
            "{asked} was refused for want of stock",
            facts | {"asked": asked},
        )


class RealTimeOrder(Property):
    """Nothing sold after it was sold out, unless it came back; orders readable at once."""

    id, name, level = "P8", "real-time order", Level.STOCK
    needs = Need.SOLD_OUT
    asks = "A sold-out sale stayed sold out; orders were readable at once and only went forward."
    fails = "reads from a stale copy"
    planted = "served after sold out"

    counts = "SELECT count(*) AS reads FROM call WHERE op = 'read'"
    good = "nobody was served after a refusal without a return; {reads} orders read"
    checks = (
        Check(
            "order {order} was promised at {answered} and not found at {start}",
            """
            SELECT call.order_id AS "order", min(promise."end") AS answered, call.start,
                   promise.rowid || ',' || call.rowid AS calls
            FROM call
            JOIN call AS promise ON promise.order_id = call.order_id AND promise.buyer = call.buyer
                AND promise.op = 'order' AND promise.outcome = 'ok' AND promise."end" < call.start
            WHERE call.op = 'read' AND call.status = 404 GROUP BY call.rowid
            """,
            certain=True,
        ),
        # Orders only go forward: who has been told of a step is not told of an earlier one later.
        # A refusal tells of a status too; past its deadline an order may be called expired before
        # it is, so that says nothing.
        Check(
            "order {order} was told to be {state} at {start}, after {after} at {told}",
            """
            WITH seen AS (
                SELECT call.rowid AS row, order_id, name AS status, rank, start, "end" FROM call
                JOIN status ON iif(outcome = 'ok', shown_status = name,
                    code = 'order_' || name
                    AND name NOT IN (SELECT after FROM step WHERE op = 'expire'))
            ),
            first AS (SELECT row, order_id, status, rank, min("end") AS told FROM seen
                GROUP BY order_id, rank)
            SELECT seen.order_id AS "order", seen.status AS state, seen.start,
                   first.status AS after, told, first.row || ',' || seen.row AS calls
            FROM seen JOIN first ON first.order_id = seen.order_id
                AND first.rank > seen.rank AND told < seen.start
            """,
            certain=True,
        ),
    )

    def problems(self, evidence: Evidence) -> Iterator[Problem]:
        """Who was wrongly served after a refusal, and what buyers did not find or saw go back.

        Who was rightly served only the end tells: units may have come back.
        """
        for (item,) in list(evidence.rows("SELECT item FROM opening")):
            yield from _served_after_sold_out(evidence, item)
        yield from super().problems(evidence)


def _served_after_sold_out(evidence: Evidence, item: str) -> Iterator[Problem]:
    """Purchases begun after a refusal had ended that got as much, though too little came back.

    Of the refusals that were over when the purchase began, the one begun last says most: the
    stretch in which something may have come back is shortest. One is kept for each quantity.
    """
    may_return = _Sums(_returns(evidence, item, "earliest"))
    has_returned = _Sums(_returns(evidence, item, "latest"))
    latest: dict[int, int] = {}
    serving: dict[str, tuple[int, int]] = {}
    for time, what, quantity, key, start in _by_time(evidence, item):
        if what == _REFUSED:
            latest[quantity] = max(latest.get(quantity, 0), start)
        elif what == _BEGUN:
            # For each refusal: at most quantity - 1 were left, and these returns were in it.
            known = (
                (has_returned.before(refused) - (asked - 1), refused)
                for asked, refused in latest.items()
                if asked <= quantity
            )
            if (best := max(known, default=None)) is not None:
                serving[key] = best
        elif key in serving:
            credit, refused = serving.pop(key)
            if may_return.up_to(time) - credit < quantity:
                yield Problem(
                    "key {key} got {quantity} of item {item} although a request begun at "
                    "{refused} had been told that it is sold out before this one began",
                    {"key": key, "quantity": quantity, "item": item, "refused": refused},
                )


# In this order at the same moment: "after" means strictly after, so a begin comes first.
_BEGUN, _REFUSED, _SERVED = 0, 1, 2


def _by_time(evidence: Evidence, item: str) -> Iterator[tuple[int, int, int, str, int]]:
    """(time, what, quantity, key, begin) of refusals and purchases, sorted by time."""
    refusals = (
        (end, _REFUSED, quantity, key, start)
        for start, end, quantity, key in evidence.rows(_REFUSALS, item)
    )
    begun = (
        (start, _BEGUN, quantity, key, start)
        for start, quantity, key in evidence.rows(
            "SELECT start, quantity, key FROM taken WHERE item = ? ORDER BY start", item
        )
    )
    served = (
        (answered, _SERVED, quantity, key, start)
        for answered, quantity, key, start in evidence.rows(
            "SELECT answered, quantity, key, start FROM taken WHERE item = ? ORDER BY answered",
            item,
        )
    )
    return heapq.merge(begun, refusals, served)


def _returns(evidence: Evidence, item: str, moment: str) -> Iterator[tuple[int, int]]:
    return evidence.rows(
        f"SELECT {moment}, quantity FROM returned WHERE item = ? ORDER BY {moment}", item
    )


class _Sums:
    """How much had happened by a time; from (time, quantity) sorted by time."""

    def __init__(self, moments: Iterator[tuple[int, int]]) -> None:
        pairs = list(moments)
        self._times = [time for time, _ in pairs]
        self._sums = [0, *accumulate(quantity for _, quantity in pairs)]

    def before(self, time: int) -> int:
        return self._sums[bisect_left(self._times, time)]

    def up_to(self, time: int) -> int:
        return self._sums[bisect_right(self._times, time)]
