"""P9: the tokens under which the stock was written."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class Fencing(Property):
    """The accepted tokens of an item never decrease, and the item has seen the highest."""

    id, name, level = "P9", "fencing", Level.STOCK
    needs = Need.FENCING
    asks = "A process that lost the item's lock wrote nothing afterwards."
    fails = "a lock that is trusted after its lease has ended"
    planted = "stale token accepted"

    def _judge(self, evidence: Evidence) -> Finding:
        movements, tokens = next(
            evidence.rows(
                """SELECT count(*), count(DISTINCT token) FROM movement
                WHERE snapshot = 0 AND token > 0"""
            )
        )
        if not movements:
            return self.unknown("no movement carries a fencing token")
        good = f"{movements} movements under {tokens} tokens, none after a newer one"
        return self.judged(_stale(evidence), good)


def _stale(evidence: Evidence) -> Iterator[str]:
    for item, movement, token, highest in evidence.rows(
        """
        SELECT item, id, token, highest FROM (
            SELECT item, id, token, max(token) OVER (PARTITION BY item ORDER BY id) AS highest
            FROM movement WHERE snapshot = 0 AND token > 0
        ) WHERE token < highest
        """
    ):
        yield f"item {item}: movement {movement} under token {token} after {highest}"
    for item, fence, highest in evidence.rows(
        """
        SELECT item.id, fence, max(token) AS highest FROM item
        JOIN movement AS m ON m.snapshot = 0 AND m.item = item.id
        WHERE item.snapshot = 0 GROUP BY item.id HAVING fence < highest
        """
    ):
        yield f"item {item}: its fence {fence} is lower than the token {highest} that it accepted"
    for item, fence, before in evidence.rows(
        """
        SELECT id, fence, before FROM (
            SELECT id, fence, max(fence) OVER (PARTITION BY id ORDER BY taken_at) AS before
            FROM item JOIN snapshot ON snapshot.number = item.snapshot
        ) WHERE fence < before
        """
    ):
        yield f"item {item}: its fence went from {before} back to {fence}"
