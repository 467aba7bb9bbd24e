"""P9: the tokens under which the stock was written."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level


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
